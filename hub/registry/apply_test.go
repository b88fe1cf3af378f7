package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

func applyAs(c client.Client, o api.Object) (api.Object, string, error) {
	res, err := c.Transact(context.Background(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: o}}})
	if err != nil {
		return nil, "", err
	}
	return res[0].Object, res[0].Action, nil
}

// The stored list has defaults that the applied one does not spell out. They are equal all the same.
func TestDefaultsInAListAreNoConflict(t *testing.T) {
	f := open(t, registry.Options{})
	must(f.user("bob").Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t)
	if _, _, err := applyAs(f.user("alice"), workload("camera", image1)); err != nil {
		t.Errorf("apply of what stands: %v", err)
	}
	_, _, err := applyAs(f.user("alice"), workload("camera", image2))
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "user:bob") || !strings.Contains(err.Error(), "spec.template.spec.containers") {
		t.Errorf("apply of another image: got %v, want a conflict with user:bob over spec.template.spec.containers", err)
	}
}

func TestWhoCreatedAnObjectMayApplyIt(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	must(alice.Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t)
	o, action, err := applyAs(alice, workload("camera", image2))
	if err != nil || action != "configured" {
		t.Fatalf("apply of what alice created: got %s, %v", action, err)
	}
	var ops []string
	for _, m := range o.Meta().ManagedFields {
		if strings.Contains(string(m.FieldsV1), "f:containers") {
			ops = append(ops, m.Operation)
		}
	}
	if len(ops) != 1 || ops[0] != "Apply" {
		t.Errorf("operations that manage the containers: got %v, want Apply alone", ops)
	}
}

func TestApplyLeavesStatusAlone(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	o, _, err := applyAs(alice, workload("camera", image1))
	if err != nil {
		t.Fatal(err)
	}
	w := o.DeepCopyObject().(*api.Workload)
	w.Status.CurrentRevision = "camera-1"
	must(f.As(registry.Actor{Name: "controller:workload"}).Update(t.Context(), w, client.WriteOptions{Subresource: "status"}))(t)
	o, _, err = applyAs(alice, workload("camera", image2))
	if err != nil || o.(*api.Workload).Status.CurrentRevision != "camera-1" {
		t.Errorf("status after an apply: got %+v, %v; want it kept", o, err)
	}
	for _, m := range o.Meta().ManagedFields {
		if strings.Contains(string(m.FieldsV1), "f:status") {
			t.Errorf("%s manages status", m.Manager)
		}
	}
}

// racing does something else just before the next proposal.
type racing struct {
	*registry.LocalBackend
	before func()
}

func (r *racing) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	if do := r.before; do != nil {
		r.before = nil
		do()
	}
	return r.LocalBackend.Propose(ctx, c)
}

func TestNothingSlipsIntoANamespaceThatIsBeingDeleted(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	if err := registry.EnsureNamespace(t.Context(), alice, "team"); err != nil {
		t.Fatal(err)
	}
	b := &racing{LocalBackend: f.backend}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:bob"})
	late := configMap("late", nil)
	late.Metadata.Namespace = "team"
	b.before = func() {
		if err := alice.Delete(t.Context(), api.Ref{Kind: api.KindNamespace, Name: "team"}, client.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Create(t.Context(), late, client.WriteOptions{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("create that races the deletion of its namespace: got %v, want not found", err)
	}
	if n := len(must(alice.List(t.Context(), api.KindConfigMap, client.ListOptions{}))(t).Items); n != 0 {
		t.Errorf("objects without a namespace: got %d, want 0", n)
	}
}

// Another's change of another field is kept, and the preconditions that the caller gave are not retried away.
func TestLostRaceIsPlannedAgainUnlessTheCallerForbids(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	b := &racing{LocalBackend: f.backend}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "controller:workload"})
	w := must(alice.Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t).(*api.Workload)
	race := func() {
		w := api.Copy(must(alice.Get(t.Context(), refTo(w), client.GetOptions{}))(t).(*api.Workload))
		w.Metadata.ResourceVersion = ""
		w.Metadata.Labels = map[string]string{"round": w.Metadata.Labels["round"] + "x"}
		must(alice.Update(t.Context(), w, client.WriteOptions{}))(t)
	}
	status := api.Copy(w)
	status.Metadata.ResourceVersion, status.Status.CurrentRevision = "", "camera-1"
	b.before = race
	got := must(c.Update(t.Context(), status, client.WriteOptions{Subresource: "status"}))(t).(*api.Workload)
	if got.Metadata.Labels["round"] != "x" || got.Status.CurrentRevision != "camera-1" {
		t.Errorf("after the race: got labels %v, revision %q; want both writes", got.Metadata.Labels, got.Status.CurrentRevision)
	}
	status = api.Copy(got)
	status.Status.CurrentRevision = "camera-2"
	b.before = race
	if _, err := c.Update(t.Context(), status, client.WriteOptions{Subresource: "status"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("a write with a resourceVersion that lost the race: got %v, want a conflict", err)
	}
}

func TestIdleWatcherGetsBookmarks(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	at := must(c.List(t.Context(), api.KindWorkload, client.ListOptions{}))(t).ResourceVersion
	w := must(c.Watch(t.Context(), api.KindWorkload, client.WatchOptions{ResourceVersion: at, Bookmarks: true}))(t)
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := make(chan struct{})
	var ev client.Event
	var err error
	go func() {
		ev, err = w.Next(ctx)
		close(got)
	}()
	// A watcher gets marks for what others write after it has caught up, which happens in Next: so others go on writing.
	for i, waiting := 0, true; waiting; i++ {
		must(c.Create(t.Context(), configMap(fmt.Sprint("other-", i), nil), client.WriteOptions{}))(t)
		f.backend.Progress()
		select {
		case <-got:
			waiting = false
		default:
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	rv := must(store.ParseRevision(ev.Object.Meta().ResourceVersion))(t)
	if from := must(store.ParseRevision(at))(t); ev.Type != client.Bookmark || rv <= from {
		t.Errorf("event: got %s at %d, want a bookmark after %d", ev.Type, rv, from)
	}
}

func FuzzSelectorsAndTokens(f *testing.F) {
	f.Add("metadata.name=a,spec.device!=b", "app in (x)", "eyJyIjoxLCJzIjoiYSJ9")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, fields, labels, token string) {
		r := fuzzRegistry(t)
		o := client.ListOptions{FieldSelector: fields, LabelSelector: labels, Continue: token, Limit: 1}
		l, err := r.List(t.Context(), api.KindAssignment, o)
		if err == nil && len(l.Items) != 0 {
			t.Errorf("an empty kind lists %d objects", len(l.Items))
		}
		if err != nil && fault.ClassOf(err) == fault.Internal {
			t.Errorf("list %+v: %v, which is no fault of the caller", o, err)
		}
	})
}

// emptyStore has one revision and nothing else.
type emptyStore struct{ registry.Backend }

func (emptyStore) Barrier(context.Context) error { return nil }
func (emptyStore) Revision() store.Revision      { return store.MakeRevision(1, 1) }
func (emptyStore) Range(context.Context, store.RangeRequest) (*store.RangeResult, error) {
	return &store.RangeResult{Revision: store.MakeRevision(1, 1)}, nil
}

func fuzzRegistry(t *testing.T) client.Client {
	t.Helper()
	return must(registry.New(emptyStore{}, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:fuzz"})
}
