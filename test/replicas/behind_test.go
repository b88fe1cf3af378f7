package replicas

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/cluster"
)

// soon bounds what is to fail because a majority cannot be asked.
const soon = 300 * time.Millisecond

func configMap(name string) *api.ConfigMap {
	return &api.ConfigMap{Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS}}
}

func refOf(name string) api.Ref {
	return api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS, Name: name}
}

var someone = registry.Actor{Name: "user:alice"}

// create makes an object on a member and returns its revision.
func create(t *testing.T, h hub, name string) store.Revision {
	t.Helper()
	o, err := h.As(someone).Create(t.Context(), configMap(name), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rev, err := store.ParseRevision(o.Meta().ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// TestF35MemberThatLagsSaysSoInsteadOfAnsweringFromThePast cuts a follower off, then a leader that does not know yet that it is one
// no more. What they cannot know they refuse, in a way that sends the caller to another member; what they show, they date.
func TestF35MemberThatLagsSaysSoInsteadOfAnsweringFromThePast(t *testing.T) {
	for _, who := range []string{"follower", "leader"} {
		t.Run(who, func(t *testing.T) {
			c := start(t)
			m := c.Leader()
			if who == "follower" {
				m = c.Followers(m)[0]
			}
			c.Net.Isolate(m.Addr, c.Addrs(m.Name)...)
			rev := create(t, hubOn(t, c.Leader(m.Name)), "new")
			behind := hubOn(t, m)
			refusesWhatItDoesNotHave(t, behind, rev)
			c.Net.MendAll()
			c.Until("it is ready again", func() bool { return ready(behind) == nil })
			o, err := behind.As(someone).Get(t.Context(), refOf("new"), client.GetOptions{})
			if err != nil || o.Meta().ResourceVersion != rev.String() {
				t.Errorf("once it is ready: got %v, %v, want the object at %d", o, err, rev)
			}
		})
	}
}

// ready is what /readyz asks of a member.
func ready(h hub) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return h.Barrier(ctx)
}

func refusesWhatItDoesNotHave(t *testing.T, h hub, rev store.Revision) {
	t.Helper()
	if err := ready(h); err == nil {
		t.Error("it is ready, want it not to be while no majority confirms what it has")
	}
	user := h.As(someone)
	for what, ask := range map[string]func(ctx context.Context) error{
		"read": func(ctx context.Context) error {
			_, err := user.Get(ctx, refOf("new"), client.GetOptions{})
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := user.List(ctx, api.KindConfigMap, client.ListOptions{})
			return err
		},
		"list no older than what was seen elsewhere": func(ctx context.Context) error {
			_, err := user.List(ctx, api.KindConfigMap, client.ListOptions{ResourceVersion: rev.String()})
			return err
		},
		"watch from what was seen elsewhere": func(ctx context.Context) error {
			w, err := user.Watch(ctx, api.KindConfigMap, client.WatchOptions{ResourceVersion: (rev + 1).String()})
			if err == nil {
				w.Close()
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		if err := ask(ctx); !fault.Is(err, fault.Ahead, fault.Timeout, fault.Unavailable) {
			t.Errorf("%s: got class %q (%v), want one that sends the caller elsewhere", what, fault.ClassOf(err), err)
		}
		cancel()
	}
	// One that has not even replayed the beginning of the epoch knows no revision of it.
	unknown := func(err error) bool { return errors.Is(err, store.ErrAhead) || errors.Is(err, store.ErrOtherEpoch) }
	if _, err := h.Range(t.Context(), store.RangeRequest{Start: "k", Revision: rev}); !unknown(err) {
		t.Errorf("read at a revision that it has not reached: got %v, want %v", err, store.ErrAhead)
	}
	if _, err := h.Replica.Watch(t.Context(), store.WatchRequest{Start: "k", From: rev + 1}); !unknown(err) {
		t.Errorf("watch from a revision that it has not reached: got %v, want %v", err, store.ErrAhead)
	}
	// Who asks for whatever it has is told how old that is.
	l, err := user.List(t.Context(), api.KindConfigMap, client.ListOptions{ResourceVersion: "0"})
	if err != nil || l.ResourceVersion >= rev.String() {
		t.Errorf("a list of what it has: got revision %v, %v, want one below %d", l, err, rev)
	}
}

// TestF35MemberThatReplaysItsLogAnswersNothingFromBeforeIt: its file is older than its log after a kill, and its log older than the
// group's. From its first moment on, what is asked of it is answered with everything that was acknowledged, or refused.
func TestF35MemberThatReplaysItsLogAnswersNothingFromBeforeIt(t *testing.T) {
	c := start(t)
	leader := c.Leader()
	m := c.Followers(leader)[0]
	l := hubOn(t, leader)
	for i := range 50 {
		create(t, l, fmt.Sprint("old-", i))
	}
	if err := hubOn(t, m).Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	applied := m.Node.Status().Applied
	c.Kill(m.Name)
	if file := inFile(t, m); file >= applied {
		t.Fatalf("the file goes up to entry %d, want it to be behind the %d that were applied: else nothing is replayed", file, applied)
	}
	rev := create(t, l, "new")
	c.Net.Isolate(m.Addr, c.Addrs(m.Name)...)
	c.Up(m.Name)
	h := hubOn(t, m)
	refusesWhatItDoesNotHave(t, h, rev)

	// All the while that it catches up.
	answers := 0
	c.Net.MendAll()
	for answers < 3 {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		o, err := h.As(someone).Get(ctx, refOf("new"), client.GetOptions{})
		cancel()
		switch {
		case err == nil && o.Meta().ResourceVersion == rev.String():
			answers++
		case err == nil || !fault.Is(err, fault.Ahead, fault.Timeout, fault.Unavailable):
			t.Fatalf("while it catches up: got %v, class %q (%v), want the object or a refusal", o, fault.ClassOf(err), err)
		}
	}
	list, err := h.As(someone).List(t.Context(), api.KindConfigMap, client.ListOptions{})
	if err != nil || len(list.Items) != 51 {
		t.Errorf("afterwards: got %d objects, %v, want 51", len(list.Items), err)
	}
}

// inFile is the entry up to which the file of a stopped member goes.
func inFile(t *testing.T, m *cluster.Member) uint64 {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(m.Dir, "state"), mvcc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return s.Applied()
}
