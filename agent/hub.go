package agent

import (
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/api/wire"
)

// Hello implements link.Source.
func (a *Agent) Hello() wire.Hello {
	_, wall := a.cfg.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return wire.Hello{Capability: wire.CapabilityNow, AgentVersion: a.cfg.Version, BootID: a.cfg.BootID, Held: a.held,
		BundleHash: a.hash, Facts: a.facts, WallTime: wall.UnixNano()}
}

// Held implements link.Source: the position and hash of the bundle that is stored.
func (a *Agent) Held() (wire.Position, wire.Hash) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held, a.hash
}

// Desired implements link.Sink. The link verified the signature.
func (a *Agent) Desired(s wire.Signed) {
	var d wire.Desired
	if err := wire.Decode(s.Payload, wire.MaxDesired, &d); err != nil {
		a.cfg.Log.Warn("desired state not understood", "err", err)
		return
	}
	a.inbox.putDesired(DesiredReceived{Signed: s, Desired: d})
}

// Bodies implements link.Sink.
func (a *Agent) Bodies(r wire.BodiesReply) { a.inbox.putBodies(r) }

// Command implements link.Sink. The link verified the signature.
func (a *Agent) Command(s wire.Signed) {
	var c wire.Command
	if err := wire.Decode(s.Payload, wire.MaxCommand, &c); err != nil {
		a.cfg.Log.Warn("command not understood", "err", err)
		return
	}
	a.inbox.putCommand(c)
}

// Acked implements link.Sink.
func (a *Agent) Acked(seq uint64) { a.inbox.putAcked(seq) }

// State implements link.Sink.
func (a *Agent) State(s link.State) {
	a.mu.Lock()
	before := a.state
	a.state = s
	a.mu.Unlock()
	if s.Connected != before.Connected {
		a.inbox.put(func() { a.inbox.hub = &HubChanged{s.Connected} })
	}
	switch {
	case s.Connected && !before.Connected:
		a.cfg.Log.Info("hub connected", "endpoint", s.Endpoint)
	case !s.Connected && (before.Connected || before.Err == nil && s.Err != nil):
		a.cfg.Log.Warn("hub not connected; what runs goes on", "endpoint", s.Endpoint, "err", s.Err, "next_try", s.NextTry)
	}
}

// LinkState is the link as it was last told.
func (a *Agent) LinkState() link.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Found tells the agent what was found out about the board since the start.
func (a *Agent) Found(f wire.Facts) {
	a.mu.Lock()
	a.facts = f
	a.mu.Unlock()
	a.inbox.put(func() { a.inbox.facts = &FactsChanged{f} })
}
