package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// LocalBackend is a Backend over one store without consensus: for tests, and for tools that have the store to themselves.
type LocalBackend struct {
	*mvcc.Store

	mu   sync.Mutex // orders proposals
	term uint64
	err  error // from giving the store its first epoch
}

// Local makes a Backend of a store that nobody else writes to, and gives a fresh one its first epoch. A disk that fails at that
// is reported by Barrier and Propose.
func Local(s *mvcc.Store) *LocalBackend {
	l := &LocalBackend{Store: s, term: 1}
	if s.Epoch().Number == 0 {
		res, err := l.apply(&store.Command{
			Level: store.FormatLevel, Actor: "hub:local", RequestID: uuid.NewString(), Time: time.Now().UnixNano(),
			NewEpoch: &store.Epoch{Number: 1, ID: uuid.NewString()},
		})
		l.err = errors.Join(err, res.Err)
	}
	return l
}

// SetTerm begins another term of office: writes fenced by an earlier one are refused from now on.
func (l *LocalBackend) SetTerm(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
}

// Compact drops the versions that were superseded at or before the revision.
func (l *LocalBackend) Compact(ctx context.Context, at store.Revision) error {
	res, err := l.Propose(ctx, &store.Command{Actor: "hub:local", Compact: at})
	return errors.Join(err, res.Err)
}

// Barrier has nothing to wait for.
func (l *LocalBackend) Barrier(ctx context.Context) error {
	if l.err != nil {
		return fault.Unavailable.Wrap(l.err)
	}
	return ctx.Err()
}

// AtLeast has nothing to wait for.
func (l *LocalBackend) AtLeast(ctx context.Context, want store.Revision) error {
	if err := l.Barrier(ctx); err != nil {
		return err
	}
	return store.Reached(l.Revision(), want)
}

// Propose applies the command at once.
func (l *LocalBackend) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	if err := l.Barrier(ctx); err != nil {
		return store.Result{}, err
	}
	if c.Level == 0 {
		c.Level = store.FormatLevel
	}
	if c.RequestID == "" {
		c.RequestID = uuid.NewString()
	}
	if c.Time == 0 {
		c.Time = time.Now().UnixNano()
	}
	return l.apply(c)
}

func (l *LocalBackend) apply(c *store.Command) (store.Result, error) {
	b, err := store.EncodeCommand(c)
	if err != nil {
		return store.Result{}, fault.BadRequest.Errorf("command: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	res, err := l.Apply([]mvcc.Entry{{Index: l.Applied() + 1, Term: l.term, Commands: [][]byte{b}}})
	if err != nil {
		return store.Result{}, fmt.Errorf("apply: %w", err)
	}
	return res[0][0], nil
}
