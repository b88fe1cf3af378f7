package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// shelf is a client of objects that a test puts there. While err is set, every call fails with it and watches break.
type shelf struct {
	client.Client // nothing else is called

	mu       sync.Mutex
	objects  []api.Object
	err      error
	watchers map[chan error]bool // one error, or nil for a change
	updates  func(api.Object) error
}

func (s *shelf) put(objects ...api.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = objects
	s.tellLocked(nil)
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err != nil {
		s.tellLocked(err)
	}
}

func (s *shelf) tellLocked(err error) {
	for w := range s.watchers {
		select {
		case w <- err:
		default:
		}
	}
}

func (s *shelf) Get(_ context.Context, r api.Ref, _ client.GetOptions) (api.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	for _, o := range s.objects {
		if k, _ := api.KindFor(o); k == r.Kind && o.Meta().Name == r.Name {
			return o, nil
		}
	}
	return nil, fault.ObjectNotFound(r.Kind.Kind, r.Name)
}

func (s *shelf) List(_ context.Context, kind *api.Kind, _ client.ListOptions) (*client.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &client.List{}
	for _, o := range s.objects {
		if k, _ := api.KindFor(o); k == kind {
			l.Items = append(l.Items, o)
		}
	}
	return l, s.err
}

func (s *shelf) Update(_ context.Context, o api.Object, _ client.WriteOptions) (api.Object, error) {
	return o, s.updates(o)
}

func (s *shelf) Watch(context.Context, *api.Kind, client.WatchOptions) (client.Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	w := make(chan error, 1)
	if s.watchers == nil {
		s.watchers = map[chan error]bool{}
	}
	s.watchers[w] = true
	return shelfWatcher{s, w}, nil
}

type shelfWatcher struct {
	s *shelf
	c chan error
}

func (w shelfWatcher) Next(ctx context.Context) (client.Event, error) {
	select {
	case err := <-w.c:
		return client.Event{Type: client.Modified}, err
	case <-ctx.Done():
		return client.Event{}, ctx.Err()
	}
}

func (w shelfWatcher) Close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.watchers, w.c)
}

// wl and ro are a workload that declares a revision and a rollout to one.
func wl(revision string, generation, judged int64) *api.Workload {
	w := &api.Workload{Metadata: api.ObjectMeta{Name: "hello", Generation: generation}}
	w.Status.ObservedGeneration, w.Status.UpdatedRevision = judged, revision
	w.Status.Conditions = []api.Condition{{Type: "Progressing", Status: api.True, Reason: "RolloutProgressing", ObservedGeneration: judged}}
	return w
}

func ro(revision int64, phase string, wave api.WaveStatus) *api.Rollout {
	name := []string{"hello-0", "hello-1", "hello-2"}[revision]
	r := &api.Rollout{Metadata: api.ObjectMeta{Name: name, UID: name}, Spec: api.RolloutSpec{Workload: "hello", To: name, Revision: revision}}
	r.Status.Phase, r.Status.Waves = phase, []api.WaveStatus{wave}
	return r
}

// followed runs followRollout in a bubble beside a story that the test tells, and returns what it showed, noted and ended with.
func followed(t *testing.T, s *shelf, limit time.Duration, tell func()) (lines []string, notes string, code int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out, noted strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		end := make(chan error, 1)
		go func() {
			last, err := followRollout(ctx, s, api.Ref{Kind: api.KindWorkload, Namespace: "default", Name: "hello"}, newScreen(&out), &noted, false)
			if err == nil {
				err = last.verdict()
			}
			end <- timedOut(err, "rollout of hello", limit)
		}()
		synctest.Wait()
		tell()
		code = fault.ExitCode(<-end)
		for l := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(strings.TrimSpace(l), " ")
			lines = append(lines, text)
		}
		notes = noted.String()
	})
	return lines, notes, code
}

// settle lets everybody act on what just happened, and a time pass in which the hub is asked again.
func settle() {
	synctest.Wait()
	time.Sleep(3 * retryPause) // of the bubble's clock
	synctest.Wait()
}

func TestFollowingARolloutSurvivesAFailover(t *testing.T) {
	s := &shelf{objects: []api.Object{wl("hello-1", 1, 1), ro(1, api.RolloutProgressing, api.WaveStatus{Selected: 2})}}
	lines, notes, code := followed(t, s, time.Hour, func() {
		s.fail(fault.Unreachable.Errorf("no member answers"))
		settle()
		s.fail(fault.NoQuorum("electing"))
		settle()
		s.put(wl("hello-1", 1, 1), ro(1, api.RolloutCompleted, api.WaveStatus{Selected: 2, Reached: 2, Updated: 2}))
		s.fail(nil)
	})
	want := []string{
		"hello Progressing: 0/2 updated, 0 reached, 0 failed, 0 pending-offline",
		"hello Completed: 2/2 updated, 2 reached, 0 failed, 0 pending-offline",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	if code != fault.ExitDone || strings.Count(notes, "; trying again") != 1 {
		t.Errorf("got exit code %d and notes %q, want 0 and one note of silence", code, notes)
	}
}

func TestAFollowedRolloutThatIsSupersededIsNotTheNewOnesSuccess(t *testing.T) {
	one := ro(1, api.RolloutProgressing, api.WaveStatus{Selected: 2})
	s := &shelf{objects: []api.Object{wl("hello-1", 1, 1), one}}
	_, _, code := followed(t, s, time.Hour, func() {
		s.put(wl("hello-1", 2, 1), one) // a new declaration, of which the hub says nothing yet
		settle()
		s.put(wl("hello-2", 2, 2), ro(1, api.RolloutAborted, api.WaveStatus{Selected: 2}), ro(2, api.RolloutCompleted, api.WaveStatus{Selected: 2}))
	})
	if code != fault.ExitStopped {
		t.Errorf("exit code: got %d, want %d", code, fault.ExitStopped)
	}
	s = &shelf{objects: []api.Object{wl("hello-1", 1, 1), one}}
	_, _, code = followed(t, s, time.Hour, func() { s.put(wl("hello-2", 2, 2), ro(2, api.RolloutCompleted, api.WaveStatus{})) })
	if code != fault.ExitStopped {
		t.Errorf("exit code after the followed one was pruned: got %d, want %d", code, fault.ExitStopped)
	}
}

func TestAnOldRolloutsSuccessIsNotThatOfANewDeclaration(t *testing.T) {
	old := ro(1, api.RolloutCompleted, api.WaveStatus{Selected: 2, Updated: 2})
	s := &shelf{objects: []api.Object{wl("hello-1", 2, 1), old}}
	lines, _, code := followed(t, s, time.Minute, func() {})
	if code != fault.ExitStillGoing || len(lines) != 1 || !strings.HasPrefix(lines[0], "hello Planned: ") {
		t.Errorf("got exit code %d and %q, want %d and Planned", code, lines, fault.ExitStillGoing)
	}
	// Back to the first revision: its old rollout has the same target as the new one will have.
	back := ro(2, api.RolloutFailed, api.WaveStatus{Selected: 2, Failed: 1})
	back.Spec.To = "hello-1"
	s = &shelf{objects: []api.Object{wl("hello-1", 3, 3), old, back}}
	if _, _, code = followed(t, s, time.Minute, func() {}); code != fault.ExitFailed {
		t.Errorf("exit code: got %d, want %d of the newer rollout", code, fault.ExitFailed)
	}
}

func TestALineStandsForAChangeOfPhaseOrCountsOnly(t *testing.T) {
	at := func(cause string, updated int32) *api.Rollout {
		r := ro(1, api.RolloutProgressing, api.WaveStatus{Selected: 2, Updated: updated})
		r.Status.Cause = cause
		return r
	}
	s := &shelf{objects: []api.Object{wl("hello-1", 1, 1), at("waiting for a", 0)}}
	lines, _, _ := followed(t, s, time.Hour, func() {
		s.put(wl("hello-1", 1, 1), at("waiting for b", 0))
		settle()
		s.put(wl("hello-1", 1, 1), at("waiting for c", 1))
		settle()
		s.put(wl("hello-1", 1, 1), ro(1, api.RolloutFailed, api.WaveStatus{Selected: 2, Updated: 1}))
	})
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "waiting for a") || !strings.HasSuffix(lines[1], "waiting for c") {
		t.Errorf("got %q, want a line for the start, one for a count and one for the end", lines)
	}
}

func TestADeletedWorkloadEndsTheFollowing(t *testing.T) {
	s := &shelf{objects: []api.Object{wl("hello-1", 1, 1)}}
	if _, _, code := followed(t, s, time.Hour, func() { s.put() }); code != fault.ExitError {
		t.Errorf("exit code: got %d, want %d", code, fault.ExitError)
	}
}

func TestDeletionIsOfTheObjectNotOfItsName(t *testing.T) {
	again := &api.ConfigMap{Metadata: api.ObjectMeta{Name: "a", UID: "2"}}
	if ok, _ := gone("1")(again); !ok {
		t.Error("another object of the name counts as the deleted one")
	}
	g := gone("")
	if ok, _ := g(again); ok {
		t.Error("gone while it stands")
	}
	if ok, _ := g(&api.ConfigMap{Metadata: api.ObjectMeta{Name: "a", UID: "3"}}); !ok {
		t.Error("the one that was waited for is not gone")
	}
	if ok, _ := gone("")(nil); !ok {
		t.Error("nothing is not gone")
	}
}

func TestAChangeIsTriedAgainWhenSomebodyElseWasQuicker(t *testing.T) {
	tries := 0
	s := &shelf{objects: []api.Object{wl("hello-1", 1, 1)}}
	s.updates = func(api.Object) error {
		if tries++; tries < 3 {
			return fault.ObjectConflict("Workload", "hello", "status")
		}
		return nil
	}
	set := func(w *api.Workload) (bool, error) {
		w.Metadata.Labels = map[string]string{"a": "b"}
		return true, nil
	}
	r := api.Ref{Kind: api.KindWorkload, Namespace: "default", Name: "hello"}
	if changed, err := change(t.Context(), s, r, "m", set); !changed || err != nil || tries != 3 {
		t.Errorf("got %t, %v after %d tries, want true, nil after 3", changed, err, tries)
	}
	if s.objects[0].Meta().Labels != nil {
		t.Error("the object that was read was changed")
	}
	tries = 0
	s.updates = func(api.Object) error { tries++; return fault.ObjectConflict("Workload", "hello", "always") }
	if _, err := change(t.Context(), s, r, "m", set); fault.ExitCode(err) != fault.ExitConflict || tries != maxTries {
		t.Errorf("got %v after %d tries, want a conflict after %d", err, tries, maxTries)
	}
}

// board renders tables as a test tells it.
type board struct {
	listed  int
	watches []func(row func(client.EventType, remote.Row) error) error
	from    []string
}

func tableRow(name, rv string) remote.Row {
	var r remote.Row
	r.Cells = []any{name}
	r.Object.Metadata.Name, r.Object.Metadata.ResourceVersion = name, rv
	return r
}

func (b *board) Table(context.Context, *api.Kind, string, client.ListOptions) (*remote.Table, error) {
	if b.listed++; b.listed == 1 {
		return nil, fault.Unreachable.Errorf("down")
	}
	t := &remote.Table{Columns: []remote.Column{{Name: "Name"}}, Rows: []remote.Row{tableRow("listed", "9")}}
	t.Meta.ResourceVersion = "9"
	return t, nil
}

func (b *board) WatchTable(_ context.Context, _ *api.Kind, o client.WatchOptions, row func(client.EventType, remote.Row) error) error {
	b.from = append(b.from, o.ResourceVersion)
	if len(b.watches) == 0 {
		return fault.Forbidden.Errorf("enough")
	}
	next := b.watches[0]
	b.watches = b.watches[1:]
	return next(row)
}

func TestWatchedRowsGoOnAcrossFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{watches: []func(func(client.EventType, remote.Row) error) error{
			func(row func(client.EventType, remote.Row) error) error {
				return errors.Join(row(client.Added, tableRow("a", "6")), row(client.Deleted, tableRow("b", "7")), fault.Unavailable.Errorf("the watch has ended"))
			},
			func(func(client.EventType, remote.Row) error) error { return fault.Expired.Errorf("compacted") },
		}}
		var out, notes strings.Builder
		w := rowWatch{hub: b, kind: api.KindDevice, from: "5", p: &rowPrinter{w: &out, headers: true, shown: []int{0}, widths: []int{6}}, notes: &notes}
		if err := w.run(t.Context()); !fault.Is(err, fault.Forbidden) {
			t.Errorf("got %v, want the refusal", err)
		}
		if d := cmp.Diff([]string{"5", "7", "9"}, b.from); d != "" {
			t.Errorf("watched from (-want +got):\n%s", d)
		}
		if want := "a\nb (deleted)\nNAME\nlisted\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		if !strings.Contains(notes.String(), "changes were missed") || strings.Count(notes.String(), "; trying again") != 1 {
			t.Errorf("got notes %q, want what was missed and one silence", notes.String())
		}
	})
}

func TestLinesOfSeveralLogsStayWhole(t *testing.T) {
	var b strings.Builder
	l := &lineWriter{w: &b}
	for _, text := range []string{"one\ntwo", "", "three\n"} {
		if err := l.copy("pi-1 ", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.copy("", strings.NewReader("raw")); err != nil {
		t.Fatal(err)
	}
	if want := "pi-1 one\npi-1 two\npi-1 three\nraw"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	b.Reset()
	long := strings.Repeat("x", maxLine+10)
	if err := l.copy("", strings.NewReader(long)); err != nil || b.String() != long {
		t.Errorf("a long line came as %d bytes, %v; want %d as they are", b.Len(), err, len(long))
	}
}
