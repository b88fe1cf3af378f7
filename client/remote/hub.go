package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// PathHub is where operators ask the hub about itself, or for something: an operation's name follows.
const PathHub = "/drover/v1/hub/"

// Operations below PathHub. Status and snapshot are read by GET, the others are asked for by POST; their words are in the query.
const (
	HubStatusOp   = "status"           // a HubStatus
	HubSnapshotOp = "snapshot"         // a backup, as package client/backup reads it
	HubRemoveOp   = "remove"           // member
	HubTransferOp = "transfer"         // member
	HubCompactOp  = "compact"          // keep; a Compacted
	HubDefragOp   = "defrag"           // member
	HubTokenKeyOp = "rotate-token-key" // forget
	HubSealingOp  = "sealing"          // read: a Sealing
	HubRotateOp   = "rotate"           // restart; a Sealing
	HubDropKeysOp = "dropkeys"         // a Sealing
)

// HubStatus is the hub as one member sees it, with what each member says of itself.
type HubStatus struct {
	Asked     string      `json:"asked"` // the member that answers
	ClusterID string      `json:"clusterID"`
	Leader    string      `json:"leader,omitempty"` // as the member knows; "" = none
	Members   []HubMember `json:"members"`
	// Diverged says that members hold different contents, and how far that is decided; "" = none was found.
	Diverged string `json:"diverged,omitempty"`
}

// HubMember is what a member says of itself. With an Error only the fields up to it are set.
type HubMember struct {
	Name  string `json:"name"`
	ID    string `json:"id"` // in the group, hexadecimal; another one after the member was seeded again
	URL   string `json:"url,omitempty"`
	Peer  string `json:"peer,omitempty"`
	Role  string `json:"role"`            // leader, follower or learner
	Error string `json:"error,omitempty"` // why it could not be asked

	Version   string `json:"version,omitempty"`
	Term      uint64 `json:"term,omitempty"`
	Leader    string `json:"leader,omitempty"` // whom it follows
	Committed uint64 `json:"committed,omitempty"`
	Applied   uint64 `json:"applied,omitempty"`
	Lag       uint64 `json:"lag"` // entries that it has to apply to be where the furthest member is
	Fenced    string `json:"fenced,omitempty"`

	Epoch     uint32 `json:"epoch,omitempty"`
	EpochID   string `json:"epochID,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Compacted string `json:"compacted,omitempty"`

	SyncP99Micros int64  `json:"syncP99Micros,omitempty"` // of the last writes to the log; 0 = none yet
	LogBytes      int64  `json:"logBytes,omitempty"`      // size of raft.db
	LogEntries    uint64 `json:"logEntries,omitempty"`
	StateBytes    int64  `json:"stateBytes,omitempty"` // size of the file state
	StateFree     int64  `json:"stateFree,omitempty"`  // bytes of it that are free pages
	DiskFree      int64  `json:"diskFree,omitempty"`   // bytes that the member may still use on the directory's file system
	DiskSize      int64  `json:"diskSize,omitempty"`

	Data    HubQuota `json:"data"`
	Events  HubQuota `json:"events"`
	Journal uint64   `json:"journal"` // bytes

	Rewriting bool     `json:"rewriting,omitempty"` // it waits for its turn to rewrite its state file, or has it
	Alarms    []string `json:"alarms,omitempty"`

	CertificateEnds time.Time `json:"certificateEnds,omitzero"`
	CAEnds          time.Time `json:"caEnds,omitzero"`
	// ClockOffsetMillis is by how much its clock is ahead of that of the member that was asked, within half of the round trip.
	ClockOffsetMillis int64     `json:"clockOffsetMillis"`
	RoundTripMillis   int64     `json:"roundTripMillis"`
	Time              time.Time `json:"time,omitzero"`
}

// HubQuota is one class of contents, in bytes.
type HubQuota struct {
	Used uint64 `json:"used"`
	High uint64 `json:"high"` // writes that add are refused from here on
	Low  uint64 `json:"low"`  // and accepted again below
	Max  uint64 `json:"max"`
	Full bool   `json:"full,omitempty"`
}

// Compacted is how far a compaction has come.
type Compacted struct {
	Revision string `json:"revision"` // the oldest that can be read
	More     uint64 `json:"more"`     // revisions that are still to be compacted: ask again
}

// Sealing is how far a change of the key that seals secrets has come. Keys are named by ids, which tell nothing of them.
type Sealing struct {
	Phase  string   `json:"phase,omitempty"` // "", spreading, sealing or sealed
	Active string   `json:"active"`          // the key that seals
	Next   string   `json:"next,omitempty"`  // that is being spread
	Old    []string `json:"old,omitempty"`   // that are kept
	// Waiting are members that lack the next key, with why.
	Waiting []string `json:"waiting,omitempty"`
	// Values counts what stands by the key that sealed it.
	Values map[string]int `json:"values,omitempty"`
	// Since is the revision from which on no old key sealed anything that stands; Compacted from where on history can be read.
	Since     string `json:"since,omitempty"`
	Compacted string `json:"compacted,omitempty"`
}

// HubSealing asks how far a change of the sealing key has come.
func (c *Client) HubSealing(ctx context.Context) (*Sealing, error) {
	var s Sealing
	if err := c.readInto(ctx, call{method: http.MethodGet, path: PathHub + HubSealingOp}, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// HubStatus asks one member, and through it all others.
func (c *Client) HubStatus(ctx context.Context) (*HubStatus, error) {
	var s HubStatus
	if err := c.readInto(ctx, call{method: http.MethodGet, path: PathHub + HubStatusOp}, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// HubDo carries an operation out; answer may be nil.
func (c *Client) HubDo(ctx context.Context, op string, q url.Values, answer any) error {
	if answer == nil {
		answer = &struct{}{}
	}
	return c.readInto(ctx, call{method: http.MethodPost, path: PathHub + op, query: q, firm: true}, answer)
}

// HubSnapshot streams a backup of the member that answers first. The caller closes it.
func (c *Client) HubSnapshot(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.do(ctx, call{method: http.MethodGet, path: PathHub + HubSnapshotOp, accept: "application/octet-stream", firm: true})
	if err != nil {
		return nil, err
	}
	if resp.Body == nil {
		return nil, fault.Internal.Errorf("the hub's answer has no body")
	}
	return resp.Body, nil
}

// Levels of a Finding.
const (
	FindingOK   = "ok"
	FindingWarn = "warning" // it works, and may not for long
	FindingBad  = "trouble"
)

// Finding is one thing that a doctor looked at.
type Finding struct {
	Level string `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"` // what to do about it
}
