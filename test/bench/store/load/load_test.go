package load

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// book is a store in memory whose every answer takes a while.
type book struct {
	mu       sync.Mutex // guards below
	versions map[string]uint64
	last     uint64
	watchers map[string][]func([]byte)
	refuse   bool
}

var errRefused = errors.New("refused")

func (b *book) write(key string, value []byte, version uint64, checked bool) (uint64, error) {
	time.Sleep(time.Millisecond) // of the bubble
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse || checked && b.versions[key] != version {
		return 0, errRefused
	}
	b.last++
	b.versions[key] = b.last
	for _, event := range append(b.watchers[key], b.watchers[prefix]...) {
		event(value)
	}
	return b.last, nil
}

func (b *book) Put(_ context.Context, key string, value []byte) (uint64, error) {
	return b.write(key, value, 0, false)
}

func (b *book) PutIf(_ context.Context, key string, value []byte, version uint64) (uint64, error) {
	return b.write(key, value, version, true)
}

func (b *book) Batch(_ context.Context, keys []string, value []byte) error {
	for _, k := range keys {
		if _, err := b.write(k, value, 0, false); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) Get(context.Context, string, bool) error { return nil }

func (b *book) Watch(ctx context.Context, key string, _ bool, ready func(), event func([]byte)) error {
	b.mu.Lock()
	b.watchers[key] = append(b.watchers[key], event)
	b.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (b *book) Close() error { return nil }

func run(t *testing.T, b *book, s Spec) Result {
	t.Helper()
	b.versions, b.watchers = map[string]uint64{}, map[string][]func([]byte){}
	s.Endpoints, s.Conns, s.ValueBytes, s.Keys = []string{"a"}, 2, 32, 10
	s.Warm, s.Measure = 5*time.Millisecond, 50*time.Millisecond
	var r Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Run(t.Context(), func(context.Context, *Spec, string) (Session, error) { return b, nil }, &s); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestOperationsThatSucceedAreCountedAndTimed(t *testing.T) {
	for _, op := range []string{OpPut, OpPutIf} {
		b := &book{}
		r := run(t, b, Spec{Op: op, Clients: 4})
		if r.Ops == 0 || r.Errors != 0 || r.Ops > r.Total || uint64(r.Total) > b.last {
			t.Errorf("%s: got %+v with %d writes", op, r, b.last)
		}
		if r.P50 < 1 || r.P99 < r.P50 {
			t.Errorf("%s: got p50 %v ms, p99 %v ms; want at least the 1 ms that an answer takes", op, r.P50, r.P99)
		}
	}
}

func TestRefusalsAreErrorsAndNoOperations(t *testing.T) {
	r := run(t, &book{refuse: true}, Spec{Op: OpPut, Clients: 2})
	if r.Ops != 0 || r.Errors == 0 || r.Error != errRefused.Error() {
		t.Errorf("got %+v, want errors only", r)
	}
}

func TestEveryWatcherCountsItsEvents(t *testing.T) {
	all := run(t, &book{}, Spec{Op: OpWatchAll, Clients: 1, Watchers: 20})
	own := run(t, &book{}, Spec{Op: OpWatchKeys, Clients: 1, Watchers: 10})
	if all.Ops < 20 || own.Ops == 0 || own.Errors+all.Errors != 0 {
		t.Errorf("got %+v for the prefix, %+v for keys", all, own)
	}
}

func TestQuantileOfSortedDurations(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(i+1)*time.Millisecond)
	}
	if p50, p99 := quantile(d, 0.5), quantile(d, 0.99); p50 != 51 || p99 != 100 {
		t.Errorf("got %v and %v ms, want 51 and 100", p50, p99)
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: got %v, want 0", got)
	}
}
