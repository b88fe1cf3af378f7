package registry

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-fleet/drover/api/await"
)

// turns lets one write a namespace at a time plan and propose on this member, first come first served. Writers that count against
// one quota conflict with each other each time; one after the other only the members do.
type turns struct {
	waiter await.Waiter

	mu    sync.Mutex
	lines map[string][]chan struct{} // by namespace: the holder first; a channel of one slot each
}

// take waits for the turns of all of the namespaces. The release it returns may be called more than once.
func (t *turns) take(ctx context.Context, namespaces []string) (release func(), err error) {
	// In order, so that no two wait for each other.
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	var held []func()
	release = sync.OnceFunc(func() {
		for _, give := range held {
			give()
		}
	})
	for _, ns := range namespaces {
		give, err := t.one(ctx, ns)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	return release, nil
}

func (t *turns) one(ctx context.Context, ns string) (give func(), err error) {
	mine := make(chan struct{}, 1)
	t.mu.Lock()
	if t.lines == nil {
		t.lines = map[string][]chan struct{}{}
	}
	t.lines[ns] = append(t.lines[ns], mine)
	t.mu.Unlock()
	for {
		if t.first(ns, mine) {
			return func() { t.leave(ns, mine) }, nil
		}
		if err := ctx.Err(); err != nil {
			t.leave(ns, mine)
			return nil, err
		}
		t.waiter.Wait(ctx, await.Forever, mine)
	}
}

func (t *turns) first(ns string, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines[ns][0] == mine
}

// leave takes a waiter or the holder out of the line, and wakes who is first then.
func (t *turns) leave(ns string, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := slices.DeleteFunc(t.lines[ns], func(c chan struct{}) bool { return c == mine })
	if len(line) == 0 {
		delete(t.lines, ns)
		return
	}
	t.lines[ns] = line
	select {
	case line[0] <- struct{}{}:
	default:
	}
}
