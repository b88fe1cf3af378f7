package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/await"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
)

// errResync is the cause of a watch that ended because a resync is due.
var errResync = errors.New("resync is due")

// pageSize is how many objects one list call asks for: below the 8 MiB of a transaction at usual sizes, few calls.
const pageSize = 500

// Options qualify an informer. Zero value: all objects, no resync.
type Options struct {
	Namespace     string // "" = all
	LabelSelector string
	FieldSelector string
	// Resync tells handlers of every object again (Old == New) at this interval, for what no event would repair; 0 = never.
	Resync time.Duration
	// Backoff bounds the delays between attempts to list and watch; default 50 ms to 30 s.
	Backoff retry.Policy
	Random  retry.Random // required
	Logger  *slog.Logger // required
	Waiter  await.Waiter // nil: the runtime's
	// Relisted, when set, hears of each list that fills the cache: "first", or the class of the error that ended the watch before.
	// It must not block.
	Relisted func(reason string)
}

// Change is what happened to one object. Old is nil for a new one, New is nil for one that is gone; both are the same
// object at a resync.
type Change struct {
	Old, New api.Object
	// Revision is the store revision that made the change: the cause of what it leads to. Of a deletion that happened
	// while the informer was away it is the revision of the list that no longer had the object.
	Revision string
}

// Object is New, or Old of a deletion.
func (c Change) Object() api.Object {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// Handler hears of changes. It must not block.
type Handler func(Change)

// Informer is the cache of one kind. Handlers and indexes are added before Run; reads are safe at any time.
type Informer struct {
	c        client.Client
	kind     *api.Kind
	o        Options
	handlers []Handler
	synced   chan struct{}

	mu      sync.RWMutex
	content content
	moved   chan struct{} // closed and replaced when content changes
}

// New makes an informer of a kind. It does nothing until Run.
func New(c client.Client, kind *api.Kind, o Options) *Informer {
	o.Waiter = await.Or(o.Waiter)
	if o.Backoff.Base <= 0 {
		o.Backoff.Base = 50 * time.Millisecond
	}
	return &Informer{
		c: c, kind: kind, o: o,
		synced: make(chan struct{}), moved: make(chan struct{}),
		content: newContent(),
	}
}

// AddHandler adds a handler. Not after Run.
func (i *Informer) AddHandler(h Handler) { i.handlers = append(i.handlers, h) }

// AddIndex adds an index: by gives the values under which an object is found by [Informer.By]. Not after Run. Adding a
// name again keeps the first: parts that share an informer may each ask for what they need.
func (i *Informer) AddIndex(name string, by func(api.Object) []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.content.addIndex(name, by)
}

// Synced is closed once the first list is in the cache and handlers were told of it.
func (i *Informer) Synced() <-chan struct{} { return i.synced }

// Run lists and watches until ctx ends, and returns nil then. It may be called once.
//
// A watch whose revision is no longer kept, or belongs to another history, leads to one new list after a pause. Lists from which
// no watch comes to an event are made ever more rarely, however well they succeed.
func (i *Informer) Run(ctx context.Context) error {
	a := retry.Attempts{Policy: i.o.Backoff, Random: i.o.Random}
	gone := retry.Attempts{Policy: i.o.Backoff, Random: i.o.Random} // of revisions to watch from
	alive := func() {
		a.Succeeded()
		gone.Succeeded()
	}
	from, why := "", "first"
	for ctx.Err() == nil {
		if from == "" {
			rev, err := i.relist(ctx)
			if err != nil {
				i.pause(ctx, &a, "list", err)
				continue
			}
			from = rev
			a.Succeeded()
			if i.o.Relisted != nil {
				i.o.Relisted(why)
			}
		}
		reached, err := i.watch(ctx, from, alive)
		from = reached
		if err == nil {
			i.tellAll()
			continue
		}
		if fault.Is(err, fault.Expired, fault.OtherEpoch) {
			from, why = "", string(fault.ClassOf(err))
			i.pause(ctx, &gone, "watch", err) // which spreads the lists of many informers over time
			continue
		}
		i.pause(ctx, &a, "watch", err)
	}
	return nil
}

func (i *Informer) pause(ctx context.Context, a *retry.Attempts, verb string, err error) {
	if ctx.Err() != nil {
		return
	}
	d := a.Failed(err)
	i.o.Logger.Debug("cache: will try again", "verb", verb, "kind", i.kind.Plural, "err", err, "delay", d)
	i.o.Waiter.Wait(ctx, d, nil)
}

// relist reads all pages at one revision and tells handlers what differs from the cache.
func (i *Informer) relist(ctx context.Context) (string, error) {
	fresh := map[Key]api.Object{}
	o := client.ListOptions{Namespace: i.o.Namespace, LabelSelector: i.o.LabelSelector, FieldSelector: i.o.FieldSelector, Limit: pageSize}
	rev := ""
	for {
		page, err := i.c.List(ctx, i.kind, o)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", i.kind.Plural, err)
		}
		for _, obj := range page.Items {
			fresh[KeyOf(obj)] = obj
		}
		if rev == "" {
			rev = page.ResourceVersion
		}
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
	}
	i.mu.RLock()
	changes := i.content.difference(fresh, rev)
	i.mu.RUnlock()
	for _, c := range changes {
		i.put(c)
	}
	i.mu.Lock()
	i.content.reached(rev)
	i.wakeLocked()
	i.mu.Unlock()
	select {
	case <-i.synced:
	default:
		close(i.synced)
	}
	return rev, nil
}

// watch follows the changes after from until the watcher dies, and returns the last revision that it handled. A nil error
// says that a resync is due: the watcher ends for it, since it need not survive an interrupted wait, and is opened again.
func (i *Informer) watch(ctx context.Context, from string, alive func()) (string, error) {
	if i.o.Resync > 0 {
		var cancel context.CancelFunc
		ctx, cancel = i.o.Waiter.Within(ctx, i.o.Resync, errResync)
		defer cancel()
	}
	w, err := i.c.Watch(ctx, i.kind, client.WatchOptions{
		Namespace: i.o.Namespace, LabelSelector: i.o.LabelSelector, FieldSelector: i.o.FieldSelector,
		ResourceVersion: from, Bookmarks: true,
	})
	if err != nil {
		return from, fmt.Errorf("watch %s: %w", i.kind.Plural, err)
	}
	defer w.Close()
	for {
		e, err := w.Next(ctx)
		if err != nil && errors.Is(context.Cause(ctx), errResync) {
			return from, nil
		}
		if err != nil {
			return from, fmt.Errorf("watch %s after revision %s: %w", i.kind.Plural, from, err)
		}
		alive()
		rev := e.Object.Meta().ResourceVersion
		if !Newer(rev, from) {
			continue // told already
		}
		from = rev
		i.handle(e)
	}
}

func (i *Informer) handle(e client.Event) {
	rev := e.Object.Meta().ResourceVersion
	if e.Type == client.Bookmark {
		i.mu.Lock()
		i.content.reached(rev)
		i.wakeLocked()
		i.mu.Unlock()
		return
	}
	i.mu.RLock()
	old := i.content.objects[KeyOf(e.Object)]
	i.mu.RUnlock()
	c := Change{Old: old, New: e.Object, Revision: rev}
	if e.Type == client.Deleted {
		if old == nil {
			return
		}
		c = Change{Old: e.Object, Revision: rev}
	}
	i.put(c)
}

// put changes the cache, then tells the handlers.
func (i *Informer) put(c Change) {
	i.mu.Lock()
	i.content.apply(c)
	i.wakeLocked()
	i.mu.Unlock()
	for _, h := range i.handlers {
		h(c)
	}
}

func (i *Informer) wakeLocked() {
	close(i.moved)
	i.moved = make(chan struct{})
}

func (i *Informer) tellAll() {
	for _, obj := range i.List() {
		for _, h := range i.handlers {
			h(Change{Old: obj, New: obj, Revision: obj.Meta().ResourceVersion})
		}
	}
}

// WaitFor blocks until seen is true of the cache or ctx ends. seen is called after each change and must not block.
func (i *Informer) WaitFor(ctx context.Context, seen func() bool) error {
	for {
		i.mu.RLock()
		moved := i.moved
		i.mu.RUnlock()
		if seen() {
			return nil
		}
		if i.o.Waiter.Wait(ctx, await.Forever, moved); ctx.Err() != nil {
			return fmt.Errorf("wait for %s to be seen: %w", i.kind.Plural, context.Cause(ctx))
		}
	}
}
