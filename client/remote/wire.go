package remote

import (
	"encoding/json"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// Headers between clients and members, and between members.
const (
	// HeaderRequestID names a request, so that one sent twice is done once; 16 to 128 letters, digits, '-', '_', '.'.
	HeaderRequestID = "Drover-Request-Id"
	// HeaderLocalOnly keeps a member from passing a request on to another.
	HeaderLocalOnly = "Drover-Local-Only"
	// HeaderOnBehalfOf names the person whose request a member passes on; taken from members only.
	HeaderOnBehalfOf = "Drover-On-Behalf-Of"
)

// Paths beside Kubernetes'.
const (
	PathTransactions = "/apis/" + api.FleetV1 + "/transactions"
	PathWhy          = "/drover/v1/why"
	PathMembers      = "/drover/v1/members"
)

// TransactionRequest is the body of a transaction.
type TransactionRequest struct {
	Items        []TransactionItem `json:"items"`
	FieldManager string            `json:"fieldManager,omitempty"`
	Force        bool              `json:"force,omitempty"`
	DryRun       bool              `json:"dryRun,omitempty"`
}

// TransactionItem is one write. Object has apiVersion and kind.
type TransactionItem struct {
	Verb   client.Verb     `json:"verb"`
	Object json.RawMessage `json:"object"`
}

// TransactionResponse has one result for each item, in the items' order.
type TransactionResponse struct {
	Kind       string              `json:"kind"`
	APIVersion string              `json:"apiVersion"`
	Items      []TransactionResult `json:"items"`
}

// TransactionResult is what one item came to.
type TransactionResult struct {
	Action string          `json:"action"`
	Object json.RawMessage `json:"object"`
}

// Member is one member of the hub, as the member that was asked knows it.
type Member struct {
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"` // of its HTTPS listener
	Leader  bool   `json:"leader,omitempty"`
	Healthy bool   `json:"healthy"` // heard of lately
	Message string `json:"message,omitempty"`
}

// MemberList is the answer to PathMembers.
type MemberList struct {
	Items []Member `json:"items"`
}
