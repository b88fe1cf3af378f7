package agent

import (
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

// Event is something that happened, for Core.Step.
type Event interface{ event() }

// The events.
type (
	// Desired came from a hub whose signature, cluster and device name the link has verified.
	DesiredReceived struct {
		Signed  wire.Signed
		Desired wire.Desired
	}
	// BodiesReceived answers a WantBodies, perhaps in part.
	BodiesReceived struct{ Reply wire.BodiesReply }
	// CommandReceived brings a verified command.
	CommandReceived struct{ Command wire.Command }
	// JournalAcked: the hub keeps the journal up to and including Sequence.
	JournalAcked struct{ Sequence uint64 }
	// BundleSaved answers SaveBundle.
	BundleSaved struct {
		Bundle *Bundle
		Err    error
	}
	// RuntimeSaved answers SaveRuntime.
	RuntimeSaved struct{ Err error }
	// RuntimeChanged: a list of containers may have changed.
	RuntimeChanged struct{}
	// OpDone answers StartOp.
	OpDone struct {
		Op         Op
		Err        error
		Containers []workload.Container // of OpList
		OK         bool                 // of OpCheck: it is here; of OpProbe: exit code 0
		Why        string               // of OpProbe: why not
		Tokens     []workload.HeldToken // of OpTokens
	}
	// FactsChanged brings what was found out about the board.
	FactsChanged struct{ Facts wire.Facts }
	// HubChanged: a hub is connected, or none any more.
	HubChanged struct{ Connected bool }
	// Tick: a wake-up that was asked for, or the start.
	Tick struct{}
)

func (DesiredReceived) event() {}
func (BodiesReceived) event()  {}
func (CommandReceived) event() {}
func (JournalAcked) event()    {}
func (BundleSaved) event()     {}
func (RuntimeSaved) event()    {}
func (RuntimeChanged) event()  {}
func (OpDone) event()          {}
func (FactsChanged) event()    {}
func (HubChanged) event()      {}
func (Tick) event()            {}

// Effect is something to do, from Core.Step. Effects are carried out in order; the saves are carried out before anything
// after them, and their answer is stepped before any other event.
type Effect interface{ effect() }

// The effects.
type (
	// SaveBundle makes the bundle the current copy on disk. Rotate: and the kept copy too.
	SaveBundle struct {
		Bundle *Bundle
		Rotate bool
	}
	// SaveRuntime writes what the agent remembers. The value must not be kept beyond the call.
	SaveRuntime struct{ Runtime *Runtime }
	// StartOp begins a call of the driver; OpDone answers. Several run at once.
	StartOp struct{ Op Op }
	// CancelOp ends a call early; OpDone still answers.
	CancelOp struct{ ID uint64 }
	// SendReport hands the latest report to the link.
	SendReport struct{ Report wire.Report }
	// WantBodies asks the link for bodies.
	WantBodies struct{ Request wire.BodiesRequest }
	// OpenStream carries out a command: the log of one container, as the stream named by the command.
	OpenStream struct {
		ID        string
		UID       string
		Container string
		Options   workload.LogOptions
	}
	// Wake asks for a Tick at this time since boot, instead of any asked for before. Zero: none.
	Wake struct{ At time.Duration }
)

func (SaveBundle) effect()  {}
func (SaveRuntime) effect() {}
func (StartOp) effect()     {}
func (CancelOp) effect()    {}
func (SendReport) effect()  {}
func (WantBodies) effect()  {}
func (OpenStream) effect()  {}
func (Wake) effect()        {}

// OpKind is what an Op calls.
type OpKind uint8

// The kinds of ops.
const (
	OpList OpKind = iota + 1
	OpCheck
	OpPull
	OpAct
	OpProbe
	OpTokens    // list the files with tokens
	OpToken     // ask for a token and put it into its file
	OpDropToken // remove the file
)

// Op is one call of the driver; OpToken also one of the hub. None holds a secret in clear.
type Op struct {
	ID     uint64
	Kind   OpKind
	Seq    uint64            // OpList: every action up to this one is visible in the answer
	Ref    string            // OpCheck, OpPull
	Action workload.Action   // OpAct
	Spec   workload.Spec     // OpAct, Create
	Run    workload.Run      // OpAct, Start
	Sealed []SealedEnv       // OpAct, Start
	Probe  workload.ProbeRun // OpProbe
	Ask    wire.TokenRequest // OpToken
	// Token is the file of OpToken and OpDropToken. The answer of OpToken has the times as the hub's life for it makes them.
	Token workload.HeldToken
}

// SealedEnv is a secret environment variable as it lies on disk.
type SealedEnv struct {
	Name   string
	Sealed wire.Sealed
}
