package cache

import (
	"context"
	"sync"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/client"
)

// Set holds one informer a kind, shared by all that need it.
type Set struct {
	c client.Client
	o Options

	mu        sync.Mutex
	informers map[*api.Kind]*Informer
}

// NewSet makes an empty set. Namespace and selectors of o should be empty: they would hide objects from all users.
func NewSet(c client.Client, o Options) *Set {
	o.Waiter = await.Or(o.Waiter)
	return &Set{c: c, o: o, informers: map[*api.Kind]*Informer{}}
}

// Of returns the informer of a kind and makes it when there is none. New ones must not be asked for after Run.
func (s *Set) Of(kind *api.Kind) *Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.informers[kind]
	if i == nil {
		i = New(s.c, kind, s.o)
		s.informers[kind] = i
	}
	return i
}

// Find returns the informer of a kind; false when nobody asked for one.
func (s *Set) Find(kind *api.Kind) (*Informer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.informers[kind]
	return i, ok
}

func (s *Set) all() []*Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Informer
	for _, k := range api.Kinds() {
		if i := s.informers[k]; i != nil {
			out = append(out, i)
		}
	}
	return out
}

// Run runs all informers until ctx ends and has joined them when it returns.
func (s *Set) Run(ctx context.Context) error {
	var all []func()
	for _, i := range s.all() {
		all = append(all, func() { _ = i.Run(ctx) }) // ends with ctx only
	}
	s.o.Waiter.All(all...)
	return nil
}

// WaitSynced blocks until every informer has its first list, or ctx ends.
func (s *Set) WaitSynced(ctx context.Context) error {
	for _, i := range s.all() {
		if s.o.Waiter.Wait(ctx, await.Forever, i.Synced()); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
