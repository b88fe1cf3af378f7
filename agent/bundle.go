package agent

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// MaxBundle bounds the bundle on disk: what the hub may send, once as wanted and once as what ran before, and the index.
const MaxBundle = 2*wire.MaxBodies + 2*wire.MaxDesired

// Bundle is everything that this device should run, as it lies on disk. Immutable once made.
type Bundle struct {
	Signed  wire.Signed `cbor:"1,keyasint"`           // of the Desired, as received; empty when rebuilt from the runtime
	Entries []Entry     `cbor:"2,keyasint,omitempty"` // ordered by UID

	desired wire.Desired
	wanted  map[string]*workload.Wanted
	before  map[string]*workload.Wanted
}

// Entry is one assignment of a bundle.
type Entry struct {
	UID  string `cbor:"1,keyasint"`
	Body Body   `cbor:"2,keyasint"`
	// Before is what ran before Body, kept so that it can be run on while images of Body are fetched.
	Before *Body `cbor:"3,keyasint,omitempty"`
	// Retained: in no index any more, and in no tombstone either. Absence removes nothing.
	Retained bool `cbor:"4,keyasint,omitempty"`
}

// Body is an encoded wire.Assignment, its hash, and the secrets it needs, sealed.
type Body struct {
	SpecHash wire.Hash     `cbor:"1,keyasint"`
	Encoded  []byte        `cbor:"2,keyasint"`
	Secrets  []wire.Sealed `cbor:"3,keyasint,omitempty"`
	// Grant is what the device's pool allowed when a container was made; only in what the runtime keeps beside it. What stands in a
	// bundle is judged by the bundle's own.
	Grant *grant.Grant `cbor:"4,keyasint,omitempty"`
}

// open decodes what is inside and checks it.
func (b *Bundle) open() error {
	b.wanted, b.before = map[string]*workload.Wanted{}, map[string]*workload.Wanted{}
	if len(b.Signed.Payload) > 0 {
		if err := wire.Decode(b.Signed.Payload, wire.MaxDesired, &b.desired); err != nil {
			return fmt.Errorf("stored bundle: %w", err)
		}
	}
	for _, e := range b.Entries {
		w, err := e.Body.open(e.UID)
		if err != nil {
			return fmt.Errorf("stored bundle: %w", err)
		}
		b.wanted[e.UID] = w
		if e.Before == nil {
			continue
		}
		if w, err = e.Before.open(e.UID); err == nil { // only a help: a bad one is passed over
			b.before[e.UID] = w
		}
	}
	return nil
}

func (b Body) open(uid string) (*workload.Wanted, error) {
	if !wire.HashOf(b.Encoded).Equal(b.SpecHash) {
		return nil, fmt.Errorf("assignment %s: body does not match its hash", uid)
	}
	var a wire.Assignment
	if err := wire.Decode(b.Encoded, wire.MaxBody, &a); err != nil {
		return nil, fmt.Errorf("assignment %s: %w", uid, err)
	}
	if a.UID != uid {
		return nil, fmt.Errorf("assignment %s: body is of %s", uid, a.UID)
	}
	return workload.NewWanted(a, b.SpecHash)
}

// sealed finds a secret of the body.
func (b Body) sealed(ref wire.SecretRef) (wire.Sealed, bool) {
	i := slices.IndexFunc(b.Secrets, func(s wire.Sealed) bool { return sameSecret(s.Ref, ref) })
	if i < 0 {
		return wire.Sealed{}, false
	}
	return b.Secrets[i], true
}

func sameSecret(a, b wire.SecretRef) bool { return a.Name == b.Name && a.ID.Equal(b.ID) }

// holds tells whether the bundle wants uid to run.
func (b *Bundle) holds(uid string) bool {
	return b != nil && b.wanted[uid] != nil
}

func (b *Bundle) entry(uid string) *Entry {
	if b == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(b.Entries, uid, func(e Entry, u string) int { return strings.Compare(e.UID, u) })
	if !ok {
		return nil
	}
	return &b.Entries[i]
}

func (b *Bundle) position() wire.Position {
	if b == nil {
		return wire.Position{}
	}
	return b.desired.Position
}

// body finds the body with this hash, be it wanted or from before.
func (b *Bundle) body(hash wire.Hash) []byte {
	if b == nil {
		return nil
	}
	for _, e := range b.Entries {
		if e.Body.SpecHash.Equal(hash) {
			return e.Body.Encoded
		}
		if e.Before != nil && e.Before.SpecHash.Equal(hash) {
			return e.Before.Encoded
		}
	}
	return nil
}

func (b *Bundle) secret(ref wire.SecretRef) (wire.Sealed, bool) {
	if b == nil {
		return wire.Sealed{}, false
	}
	for _, e := range b.Entries {
		if s, ok := e.Body.sealed(ref); ok {
			return s, true
		}
		if e.Before != nil {
			if s, ok := e.Before.sealed(ref); ok {
				return s, true
			}
		}
	}
	return wire.Sealed{}, false
}

// EncodeBundle and DecodeBundle turn a bundle into its bytes on disk and back.
func EncodeBundle(c *state.Codec, b *Bundle) ([]byte, error) { return c.Encode(b) }

// DecodeBundle reads a bundle and everything in it. An empty input is no bundle.
func DecodeBundle(c *state.Codec, p []byte) (*Bundle, error) {
	if len(p) == 0 {
		return nil, nil
	}
	b := &Bundle{}
	if err := c.Decode(p, b); err != nil {
		return nil, err
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	return b, nil
}

// pending is a Desired whose bodies are not all here yet. Until they are, the device keeps to the old bundle, whole.
type pending struct {
	signed  wire.Signed
	desired wire.Desired
	bodies  map[string][]byte      // by hash
	secrets map[string]wire.Sealed // by name and id
	saving  bool
}

func newPending(signed wire.Signed, desired wire.Desired, old *pending, held *Bundle) *pending {
	p := &pending{signed: signed, desired: desired, bodies: map[string][]byte{}, secrets: map[string]wire.Sealed{}}
	for _, e := range desired.Assignments {
		if b := held.body(e.SpecHash); b != nil {
			p.bodies[string(e.SpecHash)] = b
		} else if old != nil && old.bodies[string(e.SpecHash)] != nil {
			p.bodies[string(e.SpecHash)] = old.bodies[string(e.SpecHash)]
		}
		for _, ref := range e.Secrets {
			if s, ok := held.secret(ref); ok {
				p.secrets[secretKey(ref)] = s
			} else if old != nil {
				if s, ok := old.secrets[secretKey(ref)]; ok {
					p.secrets[secretKey(ref)] = s
				}
			}
		}
	}
	return p
}

func secretKey(r wire.SecretRef) string { return r.Name + "\x00" + string(r.ID) }

// take adds what came, and ignores what was not asked for or does not match its hash.
func (p *pending) take(r wire.BodiesReply) {
	for _, b := range r.Bodies {
		h := wire.HashOf(b)
		if slices.ContainsFunc(p.desired.Assignments, func(e wire.Entry) bool { return e.SpecHash.Equal(h) }) {
			p.bodies[string(h)] = bytes.Clone(b)
		}
	}
	for _, s := range r.Secrets {
		if slices.ContainsFunc(p.desired.Assignments, func(e wire.Entry) bool {
			return slices.ContainsFunc(e.Secrets, func(ref wire.SecretRef) bool { return sameSecret(ref, s.Ref) })
		}) {
			p.secrets[secretKey(s.Ref)] = s
		}
	}
}

// missing is what has to be asked for; complete when it is empty.
func (p *pending) missing() (rq wire.BodiesRequest, complete bool) {
	asked := map[string]bool{}
	for _, e := range p.desired.Assignments {
		if k := string(e.SpecHash); p.bodies[k] == nil && !asked[k] {
			asked[k] = true
			rq.Bodies = append(rq.Bodies, e.SpecHash)
		}
		for _, ref := range e.Secrets {
			k := secretKey(ref)
			if _, ok := p.secrets[k]; !ok && !asked[k] {
				asked[k] = true
				rq.Secrets = append(rq.Secrets, ref)
			}
		}
	}
	return rq, len(rq.Bodies)+len(rq.Secrets) == 0
}

// bundle builds the next bundle from a complete pending one: what is in the index, and what the old one held that is neither
// in the index nor in a tombstone. runs gives the RunHash of what runs of an assignment, "" when that is not known.
func (p *pending) bundle(old *Bundle, runs func(uid string) string) (*Bundle, error) {
	b := &Bundle{Signed: p.signed}
	named := map[string]bool{}
	for _, e := range p.desired.Assignments {
		named[e.UID] = true
		body := Body{SpecHash: e.SpecHash, Encoded: p.bodies[string(e.SpecHash)]}
		for _, ref := range e.Secrets {
			body.Secrets = append(body.Secrets, p.secrets[secretKey(ref)])
		}
		b.Entries = append(b.Entries, Entry{UID: e.UID, Body: body, Before: beforeOf(old, e, runs(e.UID))})
	}
	for _, t := range p.desired.Tombstones {
		named[t.UID] = true
	}
	if old != nil {
		for _, e := range old.Entries {
			if !named[e.UID] {
				e.Retained = true
				b.Entries = append(b.Entries, e)
			}
		}
	}
	slices.SortFunc(b.Entries, func(x, y Entry) int { return strings.Compare(x.UID, y.UID) })
	return b, b.open()
}

// beforeOf keeps the body of what runs now; bodies that never ran are skipped.
func beforeOf(old *Bundle, next wire.Entry, runs string) *Body {
	e := old.entry(next.UID)
	if e == nil {
		return nil
	}
	if w := old.wanted[next.UID]; w != nil && w.RunHash == runs {
		if e.Body.SpecHash.Equal(next.SpecHash) {
			return e.Before
		}
		body := e.Body
		return &body
	}
	return e.Before
}

// recovery is what is kept beside each container in the runtime, to rebuild a lost bundle from.
func recovery(c *state.Codec, body Body) ([]byte, error) { return c.Encode(body) }

// rebuild makes a bundle from an older copy (nil: none) and what the runtime holds, and counts the assignments that the runtime
// knew better. Containers whose recovery data cannot be read are left out; they stay strays.
func rebuild(c *state.Codec, old *Bundle, seen []workload.Container) (*Bundle, int) {
	b := &Bundle{}
	if old != nil {
		b.Signed, b.Entries = old.Signed, slices.Clone(old.Entries)
	}
	newer := map[string]*workload.Wanted{}
	for _, k := range seen {
		var body Body
		if c.Decode(k.Recovery, &body) != nil || old.buries(k.UID) {
			continue
		}
		w, err := body.open(k.UID)
		if err != nil || w.RunHash != k.RunHash || !newerThan(w, newer[k.UID]) || !old.outdated(w) {
			continue
		}
		newer[k.UID] = w
		b.Entries = slices.DeleteFunc(b.Entries, func(e Entry) bool { return e.UID == k.UID })
		b.Entries = append(b.Entries, Entry{UID: k.UID, Body: body, Retained: old.entry(k.UID) == nil})
	}
	slices.SortFunc(b.Entries, func(x, y Entry) int { return strings.Compare(x.UID, y.UID) })
	if len(newer) == 0 || b.open() != nil {
		return nil, 0
	}
	return b, len(newer)
}

// newerThan compares by the revision that last changed an assignment.
func newerThan(w, than *workload.Wanted) bool {
	return than == nil || w.Assignment.CauseRev > than.Assignment.CauseRev
}

// outdated tells whether w is newer than what this copy wants of the same assignment. What ran before, and stands in while images
// are fetched, is not.
func (b *Bundle) outdated(w *workload.Wanted) bool {
	if b == nil {
		return true
	}
	uid := w.Assignment.UID
	have, before := b.wanted[uid], b.before[uid]
	switch {
	case have == nil:
		return true
	case have.RunHash == w.RunHash, before != nil && before.RunHash == w.RunHash:
		return false
	}
	return w.Assignment.CauseRev >= have.Assignment.CauseRev
}

func (b *Bundle) buries(uid string) bool {
	return b != nil && slices.ContainsFunc(b.desired.Tombstones, func(t wire.Tombstone) bool { return t.UID == uid })
}
