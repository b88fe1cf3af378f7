package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// How the device keeps files with tokens of service accounts
//
//	wanted -> asked -> held -> asked again at 75 to 80 % of its life -> held ...
//	                    |-> its time is over: the file stays as it is, and TokenExpired says so
//
// Files lie in memory that goes with the power (workload.Tokens), beside what they were asked for as and until when they are good,
// counted since boot from before they were asked for: no wall clock is trusted. A life of the agent adopts what an earlier one
// put there; nothing of it is in the bundle, in what the agent remembers, in the journal or in a log.
//
// What starts with such a file waits for it, but not for ever: after tokenPatience it starts without, since a device without a
// network runs what it last ran; TokenMissing says so, and the file appears once a hub answers. Only while a hub says that there is
// no such account the start is held back, as in Kubernetes. What runs is never stopped for a token.

const (
	// tokenPatience is how long a start waits for a token that no hub has refused.
	tokenPatience = 20 * time.Second
	maxTokenOps   = 2
)

var tokenRetry = retry.Policy{Base: 5 * time.Second, Max: 5 * time.Minute}

// tokenFiles is what is known of files with tokens.
type tokenFiles struct {
	connected bool // a hub is
	listed    bool // what earlier lives left was looked at
	flying    bool // that is under way
	fails     int
	nextAt    time.Duration
	files     map[workload.TokenID]*tokenFile
}

type tokenFile struct {
	wanted bool
	terms  workload.TokenTerms // as wanted now
	since  time.Duration       // when it was first wanted with these terms, in this life
	held   bool
	token  workload.HeldToken // when held
	ended  int64              // device's clock when it ended; a label. 0: it has not
	busy   bool               // an op of it is under way
	fails  int
	nextAt time.Duration
	why    string // of the last failure
	noSuch bool   // the last failure: there is no such account
}

// good tells whether the file holds a token as it is wanted, perhaps one that has ended.
func (f *tokenFile) good() bool { return f.held && f.token.Terms == f.terms }

func (c *Core) tokenFile(id workload.TokenID) *tokenFile {
	f := c.tokens.files[id]
	if f == nil {
		f = &tokenFile{}
		c.tokens.files[id] = f
	}
	return f
}

// wantedToken is one file that an assignment wants.
type wantedToken struct {
	workload.TokenID
	terms workload.TokenTerms
}

func wantedTokens(w *workload.Wanted) []wantedToken {
	if w == nil {
		return nil
	}
	var out []wantedToken
	a := &w.Assignment
	for _, v := range a.Volumes {
		for _, t := range v.Tokens {
			out = append(out, wantedToken{workload.TokenID{UID: a.UID, Volume: v.Name, Path: t.Path},
				workload.TokenTerms{Account: a.Account, Audience: t.Audience, LifeSecs: t.LifeSecs, Mode: v.FileMode}})
		}
	}
	return out
}

// stepTokens asks for what is due, and drops what nothing wants any more. It needs no container runtime.
func (c *Core) stepTokens() {
	c.listTokens()
	if c.bundle == nil {
		return
	}
	for _, f := range c.tokens.files {
		f.wanted = false
	}
	keep := map[workload.TokenID]bool{}
	for i := range c.bundle.Entries {
		uid := c.bundle.Entries[i].UID
		w := c.bundle.wanted[uid]
		for _, t := range wantedTokens(w) {
			keep[t.TokenID] = true
			c.stepToken(t, w)
		}
		if before := c.bundle.before[uid]; before != nil && c.rt.memory(uid).RunHash != w.RunHash {
			for _, t := range wantedTokens(before) { // it may still run
				keep[t.TokenID] = true
			}
		}
	}
	c.dropTokens(keep)
}

// listTokens looks once at what earlier lives of the agent left.
func (c *Core) listTokens() {
	t := &c.tokens
	switch {
	case t.listed || t.flying:
	case t.nextAt > c.now.Boot:
		c.wakeAt(t.nextAt)
	default:
		t.flying = true
		c.start(Op{Kind: OpTokens})
	}
}

func (c *Core) tokensListed(e OpDone) {
	t := &c.tokens
	t.flying = false
	if e.Err != nil {
		t.fails++
		t.nextAt = c.now.Boot + tokenRetry.Delay(t.fails, c.cfg.Random)
		return
	}
	t.listed = true
	for _, h := range e.Tokens {
		if h.BootID == c.now.BootID {
			f := c.tokenFile(h.TokenID)
			f.held, f.token = true, h
		}
	}
}

func (c *Core) stepToken(t wantedToken, w *workload.Wanted) {
	f := c.tokenFile(t.TokenID)
	if f.wanted = true; f.since == 0 || f.terms != t.terms {
		f.terms, f.since = t.terms, c.now.Boot
		f.fails, f.nextAt, f.why, f.noSuch = 0, 0, "", false
	}
	if f.good() {
		c.noteEnd(f)
	} else if patient := f.since + tokenPatience; c.now.Boot < patient {
		c.wakeAt(patient)
	}
	slot := func() bool { return c.count(func(o Op) bool { return o.Kind == OpToken }) < maxTokenOps } // one that ends steps everything again
	switch {
	case f.busy || !c.tokens.listed || !c.tokens.connected:
	case f.good() && c.now.Boot < f.token.Renew:
		c.wakeAt(f.token.Renew)
	case f.nextAt > c.now.Boot:
		c.wakeAt(f.nextAt)
	case c.refusal(t.UID, w) == "" && slot():
		c.askToken(t, f, &w.Assignment)
	}
}

// noteEnd notes that the time of a token is over, once, or sees to it that this is noticed.
func (c *Core) noteEnd(f *tokenFile) {
	switch late := c.now.Boot - f.token.Until; {
	case late < 0:
		c.wakeAt(f.token.Until)
	case f.ended == 0:
		f.ended = c.now.Wall - int64(late)
		c.journal(wire.JournalRecord{UID: f.token.UID, Object: c.objectOf(f.token.UID), Reason: "TokenExpired", Message: "volume " + f.token.Volume + ": " + f.token.Path})
	}
}

func (c *Core) askToken(t wantedToken, f *tokenFile, a *wire.Assignment) {
	life := time.Duration(t.terms.LifeSecs) * time.Second
	f.busy = true
	c.start(Op{
		Kind: OpToken,
		Ask: wire.TokenRequest{UID: t.UID, Namespace: a.Namespace, Name: a.Name, Account: t.terms.Account, Volume: t.Volume, Path: t.Path,
			Audience: t.terms.Audience, LifeSecs: t.terms.LifeSecs},
		Token: workload.HeldToken{TokenID: t.TokenID, Terms: t.terms, BootID: c.now.BootID,
			Renew: c.now.Boot + life*4/5 - time.Duration(c.cfg.Random(int64(life/20))), Until: c.now.Boot + life},
	})
}

// tokenDone takes the answer of OpToken.
func (c *Core) tokenDone(e OpDone) {
	f := c.tokenFile(e.Op.Token.TokenID)
	f.busy = false
	if e.Err == nil {
		f.held, f.token, f.ended = true, e.Op.Token, 0
		f.fails, f.nextAt, f.why, f.noSuch = 0, 0, "", false
		return
	}
	f.fails++
	f.nextAt = c.now.Boot + tokenRetry.DelayAfter(e.Err, f.fails, c.cfg.Random)
	if f.why == "" {
		c.journal(wire.JournalRecord{UID: e.Op.Token.UID, Object: c.objectOf(e.Op.Token.UID), Reason: "TokenRefused",
			Message: "volume " + e.Op.Token.Volume + ": " + e.Op.Token.Path + ": " + e.Err.Error()})
	}
	f.why, f.noSuch = workload.Plain(e.Err.Error()), fault.Is(e.Err, fault.NotFound)
}

// dropTokens removes files that no template asks for any more. What is being removed as a whole is Forget's.
func (c *Core) dropTokens(keep map[workload.TokenID]bool) {
	for _, id := range c.sortedTokens() {
		f := c.tokens.files[id]
		switch {
		case keep[id] || f.busy:
		case !f.held || c.gone[id.UID]:
			delete(c.tokens.files, id)
		case c.bundle.holds(id.UID):
			f.busy = true
			c.start(Op{Kind: OpDropToken, Token: workload.HeldToken{TokenID: id}})
		}
	}
}

func (c *Core) tokenDropped(e OpDone) {
	f := c.tokenFile(e.Op.Token.TokenID)
	f.busy = false
	if e.Err == nil {
		f.held = false
	}
}

// sortedTokens are in order, so that a seed replays alike.
func (c *Core) sortedTokens() []workload.TokenID {
	out := make([]workload.TokenID, 0, len(c.tokens.files))
	for id := range c.tokens.files {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b workload.TokenID) int {
		return cmp.Or(strings.Compare(a.UID, b.UID), strings.Compare(a.Volume, b.Volume), strings.Compare(a.Path, b.Path))
	})
	return out
}

// hubChanged: who comes back to a hub asks at once.
func (c *Core) hubChanged(connected bool) {
	c.tokens.connected = connected
	if !connected {
		return
	}
	for _, f := range c.tokens.files {
		f.nextAt = 0
	}
}

// awaitsToken says which token a start of w has to wait for; "" when none.
func (c *Core) awaitsToken(w *workload.Wanted) string {
	for _, t := range wantedTokens(w) {
		f := c.tokenFile(t.TokenID)
		if f.good() && f.terms == t.terms {
			continue
		}
		if c.now.Boot >= f.since+tokenPatience && !(f.noSuch && c.tokens.connected) {
			continue
		}
		return fmt.Sprintf("waits for the token %s of volume %s%s", t.Path, t.Volume, because(f.why))
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// tokensMissing and tokensExpired are what the conditions tell.
func (c *Core) tokensMissing() string {
	return c.tokenText(func(f *tokenFile) (string, bool) {
		if f.good() || f.why == "" && c.now.Boot < f.since+tokenPatience {
			return "", false
		}
		if !c.tokens.connected {
			return "no hub is connected", true
		}
		return cmp.Or(f.why, "the hub has not answered yet"), true
	})
}

func (c *Core) tokensExpired() string {
	return c.tokenText(func(f *tokenFile) (string, bool) {
		if !f.good() || f.ended == 0 {
			return "", false
		}
		return "since " + time.Unix(0, f.ended).UTC().Format(time.RFC3339), true
	})
}

func (c *Core) tokenText(tell func(*tokenFile) (string, bool)) string {
	var parts []string
	for _, id := range c.sortedTokens() {
		f := c.tokens.files[id]
		if text, ok := tell(f); ok && f.wanted {
			parts = append(parts, fmt.Sprintf("%s, %s of volume %s: %s", c.objectOf(id.UID), id.Path, id.Volume, text))
		}
	}
	return strings.Join(parts, "; ")
}
