package hub

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

// Another key seals in three steps, each recorded in the log, so that whoever leads goes on where the one before stopped:
//
//	spreading  a member made the key; all others fetch it from those that have it, over mutual TLS. The old key seals.
//	sealing    every member has it. From this record on the new key seals, whoever writes; the leader seals again what stands.
//	sealed     nothing that stands is sealed by an old key. Old keys are kept for history and for backups, until they are dropped.
//
// Keys never go into the log: whoever has an old key and a copy of the log has not got the new one.

// Paths that members ask each other for keys by.
const (
	pathKeyIDs = "/drover/v1/internal/sealing"
	pathKey    = "/drover/v1/internal/sealing/key" // ?id=
)

const (
	maxKeyAnswer = 16 << 10
	rotateEvery  = 500 * time.Millisecond // between two looks at members that lack the key
	rotateTime   = 10 * time.Second       // of one round of looking
)

// keyAnswer is what a member says of its keys, and in answer to pathKey the key itself.
type keyAnswer struct {
	IDs []string `json:"ids,omitempty"`
	Key string   `json:"key,omitempty"` // base64
}

func (h *Hub) serveKeyIDs(w http.ResponseWriter, _ *http.Request) {
	h.answer(w, keyAnswer{IDs: h.sealer.IDs()})
}

func (h *Hub) serveKey(w http.ResponseWriter, r *http.Request) {
	key, ok := h.sealer.Reveal(r.URL.Query().Get("id"))
	if !ok {
		http.Error(w, "this member does not have the key", http.StatusNotFound)
		return
	}
	h.answer(w, keyAnswer{Key: base64.StdEncoding.EncodeToString(key)})
}

// keepKeys holds this member's keys to what the record says, from the first moment on: it fetches what it lacks, and drops what is gone.
func (h *Hub) keepKeys(ctx context.Context) error {
	attempts := retry.Attempts{Policy: retry.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}, Random: random}
	for ctx.Err() == nil {
		err := h.followKeys(ctx, attempts.Succeeded)
		if ctx.Err() != nil {
			return nil
		}
		pause := attempts.Failed(err)
		h.log.Warn("the keys that seal secrets are not kept up to date; trying again", "err", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

func (h *Hub) followKeys(ctx context.Context, done func()) error {
	w, err := h.replica.Watch(ctx, store.WatchRequest{Start: registry.KeySealing})
	if err != nil {
		return fmt.Errorf("watch %s: %w", registry.KeySealing, err)
	}
	defer w.Close()
	for {
		s, _, err := registry.ReadSealing(ctx, h.replica)
		if err != nil {
			return err
		}
		if err := h.holdKeys(ctx, s); err != nil {
			return err
		}
		done()
		if _, err := w.Next(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", registry.KeySealing, err)
		}
	}
}

// holdKeys brings this member's keys to a record.
func (h *Hub) holdKeys(ctx context.Context, s registry.Sealing) error {
	for _, id := range []string{s.Next, s.Active} {
		if id == "" || h.sealer.Has(id) {
			continue
		}
		if err := h.fetchKey(ctx, id); err != nil {
			return err
		}
		h.log.Info("this member has another sealing key", "key", id)
	}
	if s.Active != "" && h.sealer.IDs()[0] != s.Active {
		if err := h.sealer.Prefer(s.Active); err != nil {
			return err
		}
	}
	if len(s.Gone) > 0 {
		return h.sealer.Drop(s.Gone...)
	}
	return nil
}

// fetchKey asks every other member until one gives the key of the id.
func (h *Hub) fetchKey(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, rotateTime)
	defer cancel()
	errs := []error{fmt.Errorf("no member gives the sealing key %s", id)}
	for _, m := range h.node.Members() {
		if m.Name == h.id.Name || m.APIAddr == "" {
			continue
		}
		var got keyAnswer
		if err := h.askMember(ctx, m, pathKey+"?id="+url.QueryEscape(id), maxKeyAnswer, &got); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
			continue
		}
		key, err := base64.StdEncoding.DecodeString(got.Key)
		if err != nil || registry.KeyIDOf(key) != id {
			errs = append(errs, fmt.Errorf("%s: it gave another key than it was asked for", m.Name))
			continue
		}
		return h.sealer.Add(key)
	}
	return errors.Join(errs...)
}

// leadRotation carries on, while this member leads, whatever step the record is at.
func (h *Hub) leadRotation(ctx context.Context, term uint64) error {
	tick := time.NewTicker(rotateEvery)
	defer tick.Stop()
	said := ""
	for {
		err := h.rotateStep(ctx, term)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && err.Error() != said:
			said = err.Error()
			h.log.Warn("the sealing key's change waits", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *Hub) rotateStep(ctx context.Context, term uint64) error {
	s, at, err := registry.ReadSealing(ctx, h.replica)
	if err != nil {
		return err
	}
	actor := registry.Actor{Name: "controller:sealing", Term: term}
	switch s.Phase {
	case registry.SealingSpread:
		if lack := h.lacking(ctx, s.Next); len(lack) > 0 {
			return fmt.Errorf("%s: without the new key yet", strings.Join(lack, ", "))
		}
		s.Phase, s.Old, s.Active, s.Next = registry.SealingActive, append(s.Old, s.Active), s.Next, ""
		return h.writeSealing(ctx, actor, s, at)
	case registry.SealingActive:
		if !h.sealer.Has(s.Active) {
			return fmt.Errorf("this member does not have the key %s yet", s.Active)
		}
		n := 0
		if err := h.registry.Reseal(ctx, actor, s.Active, func(more int) { n += more }); err != nil {
			return fmt.Errorf("seal again by the new key: %w", err)
		}
		s.Phase, s.Since = registry.SealingDone, h.store.Revision().String()
		h.log.Info("everything that stands is sealed by the new key", "key", s.Active, "sealed_again", n)
		return h.writeSealing(ctx, actor, s, at)
	}
	return nil
}

// lacking lists the members that do not have a key, or do not say; why stands behind the name.
func (h *Hub) lacking(ctx context.Context, id string) []string {
	ctx, cancel := context.WithTimeout(ctx, rotateTime)
	defer cancel()
	var out []string
	for _, m := range h.node.Members() {
		if err := h.hasKey(ctx, m, id); err != nil {
			out = append(out, fmt.Sprintf("%s (%v)", m.Name, err))
		}
	}
	return out
}

func (h *Hub) hasKey(ctx context.Context, m consensus.Member, id string) error {
	got := keyAnswer{IDs: h.sealer.IDs()}
	if m.Name != h.id.Name {
		got = keyAnswer{}
		if err := h.askMember(ctx, m, pathKeyIDs, maxKeyAnswer, &got); err != nil {
			return err
		}
	}
	if !slices.Contains(got.IDs, id) {
		return errors.New("it has not fetched it yet")
	}
	return nil
}

func (h *Hub) writeSealing(ctx context.Context, a registry.Actor, s registry.Sealing, at store.Revision) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fault.Internal.Errorf("encode %s: %w", registry.KeySealing, err)
	}
	res, err := h.replica.Propose(ctx, &store.Command{
		Term: a.Term, Actor: a.Name, If: []store.Precondition{{Key: registry.KeySealing, ModRevision: at}},
		Ops: []store.Op{{Type: store.OpPut, Key: registry.KeySealing, Value: b, Note: store.Note{Verb: "update", Object: registry.KeySealing}}},
	})
	if err != nil {
		return err
	}
	var moved *store.ConflictError
	if errors.As(res.Err, &moved) {
		return &notWritten{fault.Conflict.Errorf("another change of the sealing key was quicker: ask for its state again")}
	}
	if res.Err != nil {
		return &notWritten{res.Err}
	}
	return nil
}

// notWritten is a refusal of the record, as opposed to not knowing what came of it.
type notWritten struct{ error }

func (e *notWritten) Unwrap() error { return e.error }

// startRotation makes a key and has it spread. One that is under way is gone on with; with restart a key that is still being spread is given up
// for another, for when the member that made it is gone for good.
func (h *Hub) startRotation(ctx context.Context, q url.Values) (any, error) {
	if err := h.replica.Barrier(ctx); err != nil {
		return nil, err
	}
	s, at, err := registry.ReadSealing(ctx, h.replica)
	if err != nil {
		return nil, err
	}
	restart := q.Get("restart") == "true"
	if s.Phase == registry.SealingActive || s.Phase == registry.SealingSpread && !restart {
		return h.sealing(ctx)
	}
	key, err := registry.NewSealingKey()
	if err != nil {
		return nil, err
	}
	if s.Active == "" {
		s.Active = h.sealer.IDs()[0]
	}
	if err := h.sealer.Add(key); err != nil {
		return nil, fault.Internal.Errorf("keep the new sealing key: %w", err)
	}
	s.Phase, s.Next, s.From, s.Since = registry.SealingSpread, registry.KeyIDOf(key), h.id.Name, ""
	s.Actor, s.Time = "hub:"+h.id.Name, api.TimeOf(time.Now())
	err = h.writeSealing(ctx, registry.Actor{Name: s.Actor}, s, at)
	var never *notWritten
	if errors.As(err, &never) {
		return nil, errors.Join(err, h.sealer.Drop(s.Next))
	}
	if err != nil { // the record may stand, or come to: the key is kept, for nobody else has it
		return nil, err
	}
	h.log.Warn("another sealing key was asked for", "key", s.Next)
	return h.sealing(ctx)
}

// sealing says how far a change of the key has come.
func (h *Hub) sealing(ctx context.Context) (*remote.Sealing, error) {
	if err := h.replica.Barrier(ctx); err != nil {
		return nil, err
	}
	s, _, err := registry.ReadSealing(ctx, h.replica)
	if err != nil {
		return nil, err
	}
	counts, err := registry.SealedValues(ctx, h.replica)
	if err != nil {
		return nil, err
	}
	out := &remote.Sealing{Phase: s.Phase, Active: s.Active, Next: s.Next, Old: s.Old, Since: s.Since, Values: counts, Compacted: h.store.Compacted().String()}
	if out.Active == "" {
		out.Active = h.sealer.IDs()[0]
	}
	if s.Phase == registry.SealingSpread {
		out.Waiting = h.lacking(ctx, s.Next)
	}
	return out, nil
}

// dropKeys forgets the old keys on every member, once nothing that can be read needs them. Backups do, and are not known here.
func (h *Hub) dropKeys(ctx context.Context, _ url.Values) (any, error) {
	if err := h.replica.Barrier(ctx); err != nil {
		return nil, err
	}
	s, at, err := registry.ReadSealing(ctx, h.replica)
	if err != nil {
		return nil, err
	}
	if s.Phase != registry.SealingDone {
		return nil, fault.Conflict.Errorf("a change of the sealing key is not finished (%s): old keys are dropped after it", orElse(s.Phase, "none was made"))
	}
	if len(s.Old) == 0 {
		return h.sealing(ctx)
	}
	since, err := store.ParseRevision(s.Since)
	if err != nil {
		return nil, fault.Internal.Errorf("record %s: %w", registry.KeySealing, err)
	}
	if have := h.store.Compacted(); have < since {
		return nil, fault.Conflict.Errorf("history before revision %s can still be read, and holds values sealed by the old keys: wait until it is compacted (by --keep-for, or drover hub compact --keep 0); it is at %s", since, have)
	}
	counts, err := registry.SealedValues(ctx, h.replica)
	if err != nil {
		return nil, err
	}
	for _, id := range s.Old {
		if n := counts[id]; n > 0 {
			return nil, fault.Conflict.Errorf("%d values that stand are sealed by the key %s: run drover hub rotate-encryption-key again", n, id)
		}
	}
	s.Gone, s.Old = s.Old, nil
	if err := h.writeSealing(ctx, registry.Actor{Name: "hub:" + h.id.Name}, s, at); err != nil {
		return nil, err
	}
	h.log.Warn("old sealing keys are dropped", "keys", s.Gone)
	return h.sealing(ctx)
}
