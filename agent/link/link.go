package link

import (
	"context"
	"io"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// Source is asked by the link for what it has to tell a hub. Its methods are called from the link's goroutines, return at
// once and are safe for concurrent use.
type Source interface {
	// Hello describes the agent as it is now. Session, Held and BundleHash are filled in by the link (from its own session
	// number and from Held), so the source may leave them zero.
	Hello() wire.Hello
	// Held is the position and bundle hash of what the agent has stored safely; both zero when it holds nothing. The link
	// asks only for what is newer, so a bundle that is not complete on disk must not be counted as held.
	Held() (wire.Position, wire.Hash)
}

// Sink is told by the link what came from a hub. Its methods are called one at a time from the link's goroutines, must not
// block for long and must not call back into the Link from within, save Report and Want. Nothing is said when a hub is away,
// empty, or does not know the device: absence is never an order.
type Sink interface {
	// Desired brings a signed Desired as it came: verified by signature, cluster id and device name, and not lower than what
	// was held when the poll was sent. The sink checks the position again against what it holds by now.
	Desired(wire.Signed)
	// Bodies brings what a BodiesRequest asked for, possibly only a part of it.
	Bodies(wire.BodiesReply)
	// Command brings a signed Command whose signature, cluster id and device name were verified. The sink keeps the
	// done-ledger and counts the TTL from now.
	Command(wire.Signed)
	// Acked says that the hub keeps the device's journal up to and including this sequence.
	Acked(journal uint64)
	// State is called at every change of the link's state.
	State(State)
}

// State is the link as it is now.
type State struct {
	Connected   bool
	Endpoint    string        // hub member in use, or last tried
	LastSuccess time.Time     // last answer of a hub, with a monotonic reading; zero before the first
	Err         error         // why it is not connected
	NextTry     time.Duration // until the next attempt, from now; 0 when connected
	Endpoints   []string      // every endpoint known, those learned from the hub included
}

// Link keeps the agent in touch with some hub member over some transport.
type Link interface {
	// Run keeps the link up until ctx ends. It returns only then: whatever the hub does is retried for ever, at a capped rate.
	Run(ctx context.Context) error
	// Report hands over the latest report. The link fills in Session and Sequence; a report not sent yet is replaced; one
	// whose sending failed is sent again, unless a newer one came.
	Report(wire.Report)
	// Want asks for bodies and secrets; the latest request wins. It is asked again after a reconnect until Bodies came.
	Want(wire.BodiesRequest)
	// Token asks for a token of a service account; the link fills in the session. fault.Unreachable while no hub is connected.
	Token(ctx context.Context, q wire.TokenRequest) (wire.TokenReply, error)
	// OpenStream sends r as the body of the stream that a Command named, until r ends, ctx ends or the hub hangs up.
	OpenStream(ctx context.Context, id string, r io.Reader) error
}
