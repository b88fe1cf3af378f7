package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/workload/fakedriver"
	"github.com/drover-fleet/drover/api/wire"
)

// recorder is a link that keeps what it was given.
type recorder struct {
	mu      sync.Mutex
	report  wire.Report
	want    wire.BodiesRequest
	streams map[string]string
}

func (r *recorder) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (r *recorder) Report(x wire.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = x
}

func (r *recorder) Want(x wire.BodiesRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = x
}

func (r *recorder) Token(context.Context, wire.TokenRequest) (wire.TokenReply, error) {
	return wire.TokenReply{}, nil
}

func (r *recorder) OpenStream(_ context.Context, id string, in io.Reader) error {
	b, err := io.ReadAll(in)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[id] = string(b)
	return err
}

func newAgent(t *testing.T, rt *fakedriver.Runtime, dir string) *Agent {
	t.Helper()
	began := time.Now()
	a, err := New(Config{Device: "pi-07", Dir: dir, BootID: "b1", Driver: rt.Connect(0), Random: func(n int64) int64 { return n / 2 },
		Clock: func() (time.Duration, time.Time) { return time.Minute + time.Since(began), time.Now() }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheLoopRunsWhatItIsToldAndEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rt := fakedriver.New(func() int64 { return time.Now().UnixNano() })
		rt.Publish(img("1"), nil)
		h := newHub(t)
		h.set(assignment("cam", img("1")))
		ev, bodies := h.desired()
		a := newAgent(t, rt, dir)
		var l link.Link = &recorder{streams: map[string]string{}}
		r := l.(*recorder)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		synctest.Wait()
		a.Attach(l)
		a.Desired(ev.Signed)
		synctest.Wait()
		if len(r.want.Bodies) != 1 {
			t.Fatalf("asked for %+v, want one body", r.want)
		}
		a.Bodies(bodies)
		time.Sleep(time.Second) // in the bubble: until everything rests
		synctest.Wait()
		if rt.Running("cam") != 1 {
			t.Fatalf("cam does not run: %v", rt.Calls())
		}
		if len(r.report.Statuses) != 1 || !r.report.Statuses[0].Ready {
			t.Errorf("reported %+v, want cam ready", r.report.Statuses)
		}
		if p, hash := a.Held(); p != ev.Desired.Position || !hash.Equal(ev.Desired.BundleHash) {
			t.Errorf("holds %+v, want what was told", p)
		}
		cmd, err := wire.Encode(wire.Command{ID: "s1", ClusterID: "c1", Device: "pi-07", TTLSecs: 60, Verb: wire.VerbOpenStream, Stream: &wire.Logs{UID: "cam"}})
		if err != nil {
			t.Fatal(err)
		}
		a.Command(wire.Signed{Payload: cmd})
		synctest.Wait()
		if got := r.streams["s1"]; !strings.HasPrefix(got, "log of cam/cam") {
			t.Errorf("stream: got %q", got)
		}
		rt.Exit("cam", 1) // an event of the runtime wakes the loop, and a timer starts it again
		time.Sleep(time.Minute)
		synctest.Wait()
		if rt.Running("cam") != 1 || rt.Starts("cam") != 2 {
			t.Errorf("after its end: %d running, %d starts; want 1, 2", rt.Running("cam"), rt.Starts("cam"))
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if rt.Running("cam") != 1 {
			t.Error("the end of the agent stopped a container")
		}
	})
}

func TestWithoutAHubTheStoredBundleRuns(t *testing.T) {
	dir := t.TempDir()
	d, h := newDevice(t, 1), newHub(t)
	d.dir = dir
	d.rt.Publish(img("1"), nil)
	d.start(0)
	h.set(assignment("cam", img("1")))
	h.tell(d)
	synctest.Test(t, func(t *testing.T) {
		rt := fakedriver.New(func() int64 { return time.Now().UnixNano() }) // a new card with the image on it
		rt.AddImage(img("1"))
		a := newAgent(t, rt, dir) // no link is ever attached
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if rt.Running("cam") != 1 || rt.Pulls(img("1")) != 0 {
			t.Errorf("%d running, %d pulls; want 1, 0", rt.Running("cam"), rt.Pulls(img("1")))
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
