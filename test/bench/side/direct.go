package side

import (
	"context"
	"fmt"

	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// directSession speaks the members' own service: keys and commands.
type directSession struct{ c *kv.Client }

func dialDirect(ctx context.Context, s *load.Spec, endpoint string) (load.Session, error) {
	config, err := clientTLS(s)
	if err != nil {
		return nil, err
	}
	c, err := kv.Dial(ctx, endpoint, config)
	if err != nil {
		return nil, err
	}
	return directSession{c}, nil
}

func (s directSession) Close() error { return s.c.Close() }

const benchActor = "hub:bench"

// propose returns the revision of the first write.
func (s directSession) propose(ctx context.Context, c *store.Command) (uint64, error) {
	c.Actor = benchActor
	r, err := s.c.Propose(ctx, c)
	if err == nil {
		err = r.Err
	}
	if err == nil && len(r.Revisions) != len(c.Ops) {
		err = fmt.Errorf("got %d revisions for %d writes", len(r.Revisions), len(c.Ops))
	}
	if err != nil {
		return 0, err
	}
	return uint64(r.Revisions[0]), nil
}

func write(key string, value []byte) store.Op {
	return store.Op{Type: store.OpPut, Key: key, Value: value, Note: store.Note{Verb: "update", Object: key}}
}

func (s directSession) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.propose(ctx, &store.Command{Ops: []store.Op{write(key, value)}})
}

func (s directSession) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	return s.propose(ctx, &store.Command{
		If: []store.Precondition{{Key: key, ModRevision: store.Revision(version)}}, Ops: []store.Op{write(key, value)},
	})
}

func (s directSession) Batch(ctx context.Context, keys []string, value []byte) error {
	c := &store.Command{}
	for _, k := range keys {
		c.Ops = append(c.Ops, write(k, value))
	}
	_, err := s.propose(ctx, c)
	return err
}

func (s directSession) Get(ctx context.Context, key string, stale bool) error {
	r, err := s.c.Range(ctx, store.RangeRequest{Start: key}, stale)
	if err != nil {
		return err
	}
	if len(r.KVs) != 1 {
		return fmt.Errorf("%s: got %d keys, want 1", key, len(r.KVs))
	}
	return nil
}

func (s directSession) Watch(ctx context.Context, key string, prefix bool, ready func(), event func([]byte)) error {
	rq := store.WatchRequest{Start: key}
	if prefix {
		rq.End = store.PrefixEnd(key)
	}
	w, err := s.c.Watch(ctx, rq, false)
	if err != nil {
		return err
	}
	defer w.Close()
	ready()
	for {
		b, err := w.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range b.Events {
			event(b.Events[i].KV.Value)
		}
	}
}
