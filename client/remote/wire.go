package remote

import (
	"encoding/json"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// Headers between clients and members, and between members.
const (
	// HeaderRequestID names a request, so that one sent twice is done once; 16 to 128 letters, digits, '-', '_', '.'.
	HeaderRequestID = "Drover-Request-Id"
	// HeaderLocalOnly keeps a member from passing a request on to another.
	HeaderLocalOnly = "Drover-Local-Only"
	// HeaderOnBehalfOf says who made a request that a member passes on, as the JSON of their identity; taken from members only.
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
	// Preconditions must all hold, or nothing is done.
	Preconditions []TransactionPrecondition `json:"preconditions,omitempty"`
}

// TransactionPrecondition is client.Precondition as it is sent.
type TransactionPrecondition struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// ResourceVersion of the object; absent or "" = the object does not exist.
	ResourceVersion string                `json:"resourceVersion,omitempty"`
	Selection       *TransactionSelection `json:"selection,omitempty"`
}

// TransactionSelection is client.Selection as it is sent.
type TransactionSelection struct {
	LabelSelector string   `json:"labelSelector,omitempty"`
	AppliedBy     string   `json:"appliedBy,omitempty"`
	Names         []string `json:"names"`
}

// Precondition reads it; false when there is no such kind.
func (t TransactionPrecondition) Precondition() (client.Precondition, bool) {
	k, ok := api.KindOf(t.APIVersion, t.Kind)
	p := client.Precondition{Ref: api.Ref{Kind: k, Namespace: t.Namespace, Name: t.Name}, ResourceVersion: t.ResourceVersion}
	if s := t.Selection; s != nil {
		p.Selection = &client.Selection{LabelSelector: s.LabelSelector, AppliedBy: s.AppliedBy, Names: s.Names}
	}
	return p, ok
}

func preconditionsOf(tx client.Transaction) ([]TransactionPrecondition, error) {
	out := make([]TransactionPrecondition, 0, len(tx.If))
	for _, p := range tx.If {
		if p.Ref.Kind == nil {
			return nil, fault.BadRequest.Errorf("precondition without a kind")
		}
		t := TransactionPrecondition{
			APIVersion: p.Ref.Kind.APIVersion, Kind: p.Ref.Kind.Kind, Namespace: p.Ref.Namespace, Name: p.Ref.Name, ResourceVersion: p.ResourceVersion,
		}
		if s := p.Selection; s != nil {
			t.Selection = &TransactionSelection{LabelSelector: s.LabelSelector, AppliedBy: s.AppliedBy, Names: s.Names}
		}
		out = append(out, t)
	}
	return out, nil
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
