package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// KeySealing is the hub's own record of which key seals; see Sealing.
const KeySealing = OwnPrefix + "seal"

// Phases of a change of the sealing key, in their order.
const (
	SealingSpread = "spreading" // the new key goes to all members; the old one seals
	SealingActive = "sealing"   // the new key seals, and what the old ones sealed is sealed again
	SealingDone   = "sealed"    // nothing that stands is sealed by an old key
)

// Sealing is what KeySealing holds. There is none before the first change of the key.
type Sealing struct {
	Phase  string   `json:"phase"`
	Active string   `json:"active"`          // id of the key that seals
	Next   string   `json:"next,omitempty"`  // id of the key that is being spread
	From   string   `json:"from,omitempty"`  // member that made it
	Old    []string `json:"old,omitempty"`   // ids of keys that seal no more and are kept
	Gone   []string `json:"gone,omitempty"`  // ids of keys that every member drops
	Since  string   `json:"since,omitempty"` // store revision from which on nothing stands that an old key sealed
	Actor  string   `json:"actor,omitempty"` // who asked
	Time   api.Time `json:"time,omitzero"`   // when
}

// ReadSealing reads the record as a member has it, with the revision to change it on. Both are zero where there is none.
func ReadSealing(ctx context.Context, b store.Reader) (Sealing, store.Revision, error) {
	res, err := b.Range(ctx, store.RangeRequest{Start: KeySealing})
	if err != nil {
		return Sealing{}, 0, storeFault(err)
	}
	return parseSealing(res.KVs)
}

func parseSealing(kvs []store.KV) (s Sealing, at store.Revision, err error) {
	if len(kvs) == 0 {
		return s, 0, nil
	}
	if err := json.Unmarshal(kvs[0].Value, &s); err != nil {
		return s, 0, fault.Internal.Errorf("record %s: %w", KeySealing, err)
	}
	return s, kvs[0].ModRevision, nil
}

// sealingKey is the id of the key that this plan seals by. The command rests on it: once another key seals, nothing more is sealed by the
// one before, whichever member planned it.
func (p *plan) sealingKey() (string, error) {
	if p.sealedBy != nil {
		return *p.sealedBy, nil
	}
	res, err := p.view.scan(store.RangeRequest{Start: KeySealing})
	if err != nil {
		return "", err
	}
	s, at, err := parseSealing(res.KVs)
	if err != nil {
		return "", err
	}
	if s.Active != "" && !p.c.r.o.Sealer.Has(s.Active) {
		return "", fault.Unavailable.Errorf("this member does not have the key %s yet by which Secrets are sealed: ask another, or later", s.Active)
	}
	p.preconditions = append(p.preconditions, store.Precondition{Key: KeySealing, ModRevision: at})
	p.sealedBy = &s.Active
	return s.Active, nil
}

// sealedRecords are the hub's own records that hold a sealed byte string, with their key as its context: the CA's key and those by which
// tokens are signed.
func sealedRecords() []string { return []string{OwnPrefix + "ca", OwnPrefix + "token/"} }

const (
	resealBatch = 32                    // values written by one command
	resealPause = 20 * time.Millisecond // after each, so that others' writes wait for none for long
)

// SealedValues counts what stands by the id of the key that sealed it.
func SealedValues(ctx context.Context, b store.Reader) (map[string]int, error) {
	out := map[string]int{}
	err := eachSealed(ctx, b, func(kv *store.KV) error {
		for _, v := range sealedIn(kv) {
			out[SealedBy(v)]++
		}
		return nil
	})
	return out, err
}

// eachSealed visits every key whose value holds sealed bytes, at one revision.
func eachSealed(ctx context.Context, b store.Reader, visit func(kv *store.KV) error) error {
	at := store.Revision(0)
	for _, prefix := range append(sealedRecords(), prefixOf(api.KindSecret, "")) {
		rq := store.RangeRequest{Start: prefix, End: prefixEnd(prefix), Limit: listPage, Revision: at}
		for more := true; more; {
			res, err := b.Range(ctx, rq)
			if err != nil {
				return storeFault(err)
			}
			at = res.Revision
			for i := range res.KVs {
				if err := visit(&res.KVs[i]); err != nil {
					return err
				}
				rq.Start = res.KVs[i].Key + "\x00"
			}
			rq.Revision, more = at, res.More
		}
	}
	return nil
}

// sealedIn finds the sealed values of a stored value, by the place of each: the context that it was sealed with.
func sealedIn(kv *store.KV) map[string][]byte {
	out := map[string][]byte{}
	if ref, ok := refOf(kv.Key); ok {
		obj, err := decodeStored(ref, kv.Value)
		s, isSecret := obj.(*api.Secret)
		if err != nil || !isSecret {
			return nil
		}
		for k, v := range s.Data {
			out[sealContext(ref, k)] = v
		}
		return out
	}
	var fields map[int]any
	if cbor.Unmarshal(kv.Value, &fields) != nil {
		return nil
	}
	for _, f := range fields {
		if b, ok := f.([]byte); ok && SealedBy(b) != "" {
			out[kv.Key] = b
		}
	}
	return out
}

// Reseal seals what stands by the key of the id, in small commands, until nothing that stands is sealed by another. It changes no generation,
// no managed field and no value: what is opened is what it was. One line in the journal tells of each key. progress is called after
// each command with how many values were sealed again.
func (r *Registry) Reseal(ctx context.Context, a Actor, id string, progress func(n int)) error {
	for {
		if err := r.b.Barrier(ctx); err != nil {
			return storeFault(err)
		}
		old, err := r.sealedByOthers(ctx, id)
		if err != nil || len(old) == 0 {
			return err
		}
		for len(old) > 0 {
			n := min(len(old), resealBatch)
			if err := r.resealSome(ctx, a, id, old[:n]); err != nil {
				return err
			}
			progress(n)
			old = old[n:]
			select {
			case <-time.After(resealPause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (r *Registry) sealedByOthers(ctx context.Context, id string) ([]store.KV, error) {
	var out []store.KV
	err := eachSealed(ctx, r.b, func(kv *store.KV) error {
		for _, v := range sealedIn(kv) {
			if SealedBy(v) != id {
				out = append(out, *kv)
				break
			}
		}
		return nil
	})
	return out, err
}

// resealSome writes a few keys in one command. Where one of them was written meanwhile nothing is done: the next pass finds what is left.
func (r *Registry) resealSome(ctx context.Context, a Actor, id string, kvs []store.KV) error {
	c := &store.Command{Term: a.Term, Actor: a.Name, RequestID: a.RequestID, Time: r.o.Now().UnixNano()}
	for i := range kvs {
		kv := &kvs[i]
		value, err := r.resealed(kv, id)
		if err != nil {
			return fault.Internal.Errorf("seal %s by another key: %w", kv.Key, err)
		}
		c.If = append(c.If, store.Precondition{Key: kv.Key, ModRevision: kv.ModRevision})
		object := kv.Key
		if ref, ok := refOf(kv.Key); ok {
			object = title(ref)
		}
		c.Ops = append(c.Ops, store.Op{Type: store.OpPut, Key: kv.Key, Value: value, Note: store.Note{Verb: verbReseal, Object: object}})
	}
	res, err := r.b.Propose(ctx, c)
	if err != nil {
		return storeFault(err)
	}
	var moved *store.ConflictError
	if errors.As(res.Err, &moved) {
		return nil
	}
	if res.Err != nil {
		return refusal(res.Err)
	}
	return nil
}

// verbReseal is the journal's word for a value that was sealed by another key and is the same.
const verbReseal = "reseal"

// resealed is the stored value with what it seals sealed by the key. Sealed forms of one value are equally long, and in JSON as in CBOR
// stand as one run of bytes, so everything around them stays as it is, unknown fields included.
func (r *Registry) resealed(kv *store.KV, id string) ([]byte, error) {
	value := bytes.Clone(kv.Value)
	_, isObject := refOf(kv.Key)
	for context, old := range sealedIn(kv) {
		if SealedBy(old) == id {
			continue
		}
		plain, err := r.o.Sealer.Open(old, context)
		if err != nil {
			return nil, err
		}
		sealed, err := r.o.Sealer.SealBy(id, plain, context)
		if err != nil {
			return nil, err
		}
		from, to := old, sealed
		if isObject {
			if from, err = json.Marshal(old); err != nil {
				return nil, err
			}
			if to, err = json.Marshal(sealed); err != nil {
				return nil, err
			}
		}
		if len(from) != len(to) || bytes.Count(value, from) != 1 {
			return nil, fmt.Errorf("its sealed form is not where it should be")
		}
		value = bytes.Replace(value, from, to, 1)
	}
	return value, nil
}
