package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

func tombstones(t *testing.T, c client.Client) []string {
	t.Helper()
	out := []string{}
	for _, o := range must(c.List(t.Context(), api.KindTombstone, client.ListOptions{}))(t).Items {
		out = append(out, o.Meta().Name)
	}
	return out
}

func TestRemovalFromADeviceLeavesATombstoneInTheSameCommand(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:workload"})
	a := must(c.Create(t.Context(), assignment("camera.0", ""), client.WriteOptions{}))(t)
	uid := a.Meta().UID
	move := func(device string) {
		t.Helper()
		must(c.Update(t.Context(), assignment("camera.0", device), client.WriteOptions{}))(t)
	}
	want := func(names ...string) {
		t.Helper()
		if d := cmp.Diff(names, tombstones(t, c)); d != "" {
			t.Fatalf("tombstones (-want +got):\n%s", d)
		}
	}
	move("pi-1")
	want([]string{}...)
	move("pi-2")
	want("pi-1." + uid)
	move("pi-1") // back: the order to pi-1 is taken back
	want("pi-2." + uid)
	before := f.backend.Revision()
	if err := c.Delete(t.Context(), refTo(a), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("pi-1."+uid, "pi-2."+uid)
	if got := f.backend.Revision(); got != before+2 {
		t.Errorf("revisions taken by the deletion: got %d, want 2 of one set", got-before)
	}
	ts := must(c.Get(t.Context(), api.Ref{Kind: api.KindTombstone, Name: "pi-1." + uid}, client.GetOptions{}))(t).(*api.Tombstone)
	if d := cmp.Diff(api.TombstoneSpec{Device: "pi-1", UID: uid, Namespace: api.DefaultNS, Name: "camera.0", Workload: "camera"}, ts.Spec); d != "" {
		t.Errorf("tombstone (-want +got):\n%s", d)
	}
}

func TestUnboundAssignmentLeavesNoTombstone(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:workload"})
	a := must(c.Create(t.Context(), assignment("camera.0", ""), client.WriteOptions{}))(t)
	if err := c.Delete(t.Context(), refTo(a), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := tombstones(t, c); len(got) != 0 {
		t.Errorf("tombstones: got %v, want none", got)
	}
}

func TestWritesOfAnEarlierTermAreRefused(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:workload", Term: 1})
	must(c.Create(t.Context(), configMap("a", nil), client.WriteOptions{}))(t)
	f.backend.SetTerm(2)
	_, err := c.Create(t.Context(), configMap("b", nil), client.WriteOptions{})
	if !errors.Is(err, fault.Conflict) || !errors.Is(err, store.ErrStaleTerm) {
		t.Fatalf("write of an earlier term: got %v, want a conflict for a stale term", err)
	}
	_, err = c.Get(t.Context(), refTo(configMap("b", nil)), client.GetOptions{})
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("after the refused write: got %v, want not found", err)
	}
}

// lossy answers the first write with an unknown outcome although it was applied.
type lossy struct {
	*registry.LocalBackend
	lose int
}

func (l *lossy) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	res, err := l.LocalBackend.Propose(ctx, c)
	if err == nil && l.lose > 0 {
		l.lose--
		return store.Result{}, fault.Timeout.Errorf("the answer was lost")
	}
	return res, err
}

func TestRepeatedRequestFindsItselfDone(t *testing.T) {
	f := open(t, registry.Options{})
	b := &lossy{LocalBackend: f.backend}
	r := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t)
	for i, do := range []func(c client.Client) error{
		func(c client.Client) error {
			_, err := c.Create(t.Context(), configMap("a", nil), client.WriteOptions{})
			return err
		},
		func(c client.Client) error {
			a, err := f.user("x").Get(t.Context(), refTo(configMap("a", nil)), client.GetOptions{})
			if err != nil {
				return err
			}
			next := api.Copy(a.(*api.ConfigMap))
			if next.Data != nil {
				next.Metadata.ResourceVersion = "1" // as the first attempt saw it: no longer true
			}
			next.Data = map[string]string{"k": "v"}
			_, err = c.Update(t.Context(), next, client.WriteOptions{})
			return err
		},
		func(c client.Client) error {
			return c.Delete(t.Context(), refTo(configMap("a", nil)), client.DeleteOptions{})
		},
	} {
		c := r.As(registry.Actor{Name: "user:alice", RequestID: fmt.Sprint("request-", i)})
		b.lose = 1
		if err := do(c); !errors.Is(err, fault.Timeout) {
			t.Fatalf("write %d: got %v, want the lost answer", i, err)
		}
		if err := do(c); err != nil {
			t.Errorf("write %d repeated with its request id: got %v, want success", i, err)
		}
	}
	_, err := r.As(registry.Actor{Name: "user:bob", RequestID: "another"}).Update(t.Context(), configMap("a", nil), client.WriteOptions{})
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("another request: got %v, want not found", err)
	}
}

// behind shows the past until a barrier, like a member that lags.
type behind struct {
	*registry.LocalBackend
	at       store.Revision // zero: the present
	barriers int
}

func (b *behind) Range(ctx context.Context, r store.RangeRequest) (*store.RangeResult, error) {
	if r.Revision == 0 {
		r.Revision = b.at
	}
	return b.LocalBackend.Range(ctx, r)
}

func (b *behind) Barrier(context.Context) error {
	b.at = 0
	b.barriers++
	return nil
}

func TestRefusalsAreNotMadeFromThePast(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	past := f.backend.Revision()
	made := must(alice.Create(t.Context(), configMap("a", map[string]string{"k": "new"}), client.WriteOptions{}))(t)
	b := &behind{LocalBackend: f.backend, at: past}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:bob"})
	for name, do := range map[string]func() error{
		"get":    func() error { _, err := c.Get(t.Context(), refTo(made), client.GetOptions{}); return err },
		"update": func() error { _, err := c.Update(t.Context(), made, client.WriteOptions{}); return err },
		"delete": func() error { return c.Delete(t.Context(), refTo(made), client.DeleteOptions{DryRun: true}) },
	} {
		b.at = past
		if err := do(); err != nil {
			t.Errorf("%s on a member that lags: got %v, want what stands to be found", name, err)
		}
	}
	b.at = past
	if _, err := c.Get(t.Context(), refTo(made), client.GetOptions{Stale: true}); !errors.Is(err, fault.NotFound) {
		t.Errorf("stale get: got %v, want what this member has (not found)", err)
	}
	// A write that succeeds needs no barrier: its preconditions serve.
	b.at, b.barriers = 0, 0
	must(c.Create(t.Context(), configMap("quick", nil), client.WriteOptions{}))(t)
	if b.barriers != 0 {
		t.Errorf("barriers of a create that succeeds: got %d, want 0", b.barriers)
	}
}

type admitFunc func(rq *registry.AdmissionRequest) error

func (f admitFunc) Admit(_ context.Context, rq *registry.AdmissionRequest) error { return f(rq) }

func TestWhatAdmissionSetsTravelsWithTheWrite(t *testing.T) {
	var seen []string
	f := open(t, registry.Options{Admit: admitFunc(func(rq *registry.AdmissionRequest) error {
		seen = append(seen, fmt.Sprintf("%s %s %s old=%v new=%v", rq.Actor.Name, rq.Verb, rq.Kind, rq.Old != nil, rq.New != nil))
		if w, ok := rq.New.(*api.Workload); ok && rq.Verb != "status" {
			w.Status.Images = map[string]string{w.Spec.Template.Spec.Containers[0].Image: image1}
			rq.Warnings = append(rq.Warnings, "resolved")
		}
		return nil
	})})
	alice := f.user("alice")
	var warnings []string
	ctx := registry.WithWarnings(t.Context(), func(w string) { warnings = append(warnings, w) })
	before := f.backend.Revision()
	seen = nil
	w := must(alice.Create(ctx, workload("camera", "registry.example/camera:1"), client.WriteOptions{}))(t).(*api.Workload)
	if w.Status.Images["registry.example/camera:1"] != image1 || f.backend.Revision() != before+1 {
		t.Errorf("got images %v and %d revisions, want the digest in one write", w.Status.Images, f.backend.Revision()-before)
	}
	if err := alice.Delete(ctx, refTo(w), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"user:alice create Workload old=false new=true", "user:alice delete Workload old=true new=false"}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("admission saw (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"resolved"}, warnings); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

func TestAdmissionRefusesTheWholeTransaction(t *testing.T) {
	f := open(t, registry.Options{Admit: admitFunc(func(rq *registry.AdmissionRequest) error {
		if rq.New != nil && rq.New.Meta().Name == "bad" {
			return fault.Forbidden.Errorf("not this one")
		}
		return nil
	})})
	_, err := f.user("alice").Transact(t.Context(), client.Transaction{Items: []client.TxItem{
		{Verb: client.TxApply, Object: configMap("good", nil)}, {Verb: client.TxApply, Object: configMap("bad", nil)},
	}})
	if !errors.Is(err, fault.Forbidden) {
		t.Fatalf("got %v, want forbidden", err)
	}
	_, err = f.user("alice").Get(t.Context(), refTo(configMap("good", nil)), client.GetOptions{})
	if !errors.Is(err, fault.NotFound) {
		t.Errorf("the good one: got %v, want not found", err)
	}
}

func owned(name string, owner api.Object) *api.ConfigMap {
	o := configMap(name, nil)
	k, _ := api.KindFor(owner)
	o.Metadata.OwnerReferences = []api.OwnerReference{{APIVersion: k.APIVersion, Kind: k.Kind, Name: owner.Meta().Name, UID: owner.Meta().UID}}
	return o
}

func TestPropagationReachesDependents(t *testing.T) {
	for _, tt := range []struct {
		policy string
		want   []string // what stands, with "*" where the owner reference stays
	}{
		{"", []string{"bystander", "child*", "grandchild*"}},
		{"Orphan", []string{"bystander", "child", "grandchild*"}},
		{"Foreground", []string{"bystander"}},
	} {
		t.Run("policy="+tt.policy, func(t *testing.T) {
			f := open(t, registry.Options{})
			c := f.user("alice")
			parent := must(c.Create(t.Context(), configMap("parent", nil), client.WriteOptions{}))(t)
			child := must(c.Create(t.Context(), owned("child", parent), client.WriteOptions{}))(t)
			must(c.Create(t.Context(), owned("grandchild", child), client.WriteOptions{}))(t)
			must(c.Create(t.Context(), configMap("bystander", nil), client.WriteOptions{}))(t)
			if err := c.Delete(t.Context(), refTo(parent), client.DeleteOptions{Propagation: tt.policy}); err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, o := range must(c.List(t.Context(), api.KindConfigMap, client.ListOptions{}))(t).Items {
				n := o.Meta().Name
				if len(o.Meta().OwnerReferences) > 0 {
					n += "*"
				}
				got = append(got, n)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("what stands (-want +got):\n%s", d)
			}
		})
	}
}

func TestNobodyIsAskedAboutWhatGoesWithItsOwner(t *testing.T) {
	f := open(t, registry.Options{Admit: admitFunc(func(rq *registry.AdmissionRequest) error {
		if rq.Verb == "delete" && rq.Old.Meta().Name != "parent" {
			return fault.Forbidden.Errorf("%s is not yours to delete", rq.Old.Meta().Name)
		}
		return nil
	})})
	c := f.user("alice")
	parent := must(c.Create(t.Context(), configMap("parent", nil), client.WriteOptions{}))(t)
	must(c.Create(t.Context(), owned("child", parent), client.WriteOptions{}))(t)
	bystander := must(c.Create(t.Context(), configMap("bystander", nil), client.WriteOptions{}))(t)
	if err := c.Delete(t.Context(), refTo(parent), client.DeleteOptions{Propagation: "Foreground"}); err != nil {
		t.Errorf("deletion in the foreground: got %v, want it done as in the background", err)
	}
	if err := c.Delete(t.Context(), refTo(bystander), client.DeleteOptions{Propagation: "Foreground"}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("deletion of what nobody may delete by name: got %v, want forbidden", err)
	}
	if n := len(must(c.List(t.Context(), api.KindConfigMap, client.ListOptions{}))(t).Items); n != 1 {
		t.Errorf("got %d objects, want the bystander alone", n)
	}
}

func TestFieldsOfALaterBuildSurviveAnUpdate(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	must(alice.Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t)
	const key = "workloads/default/camera"
	raw := string(must(f.backend.Range(t.Context(), store.RangeRequest{Start: key}))(t).KVs[0].Value)
	future := strings.Replace(raw, `"spec":{`, `"spec":{"offline":{"stopAfter":"5m"},`, 1)
	future = strings.Replace(future, `"metadata":{`, `"metadata":{"selfDestruct":true,`, 1)
	if future == raw {
		t.Fatal("the stored form is not what this test expects")
	}
	must(f.backend.Propose(t.Context(), &store.Command{Actor: "hub:newer", Ops: []store.Op{{Type: store.OpPut, Key: key, Value: []byte(future)}}}))(t)
	must(alice.Update(t.Context(), workload("camera", image2), client.WriteOptions{}))(t)
	got := string(must(f.backend.Range(t.Context(), store.RangeRequest{Start: key}))(t).KVs[0].Value)
	for _, want := range []string{`"offline":{"stopAfter":"5m"}`, `"selfDestruct":true`, image2} {
		if !strings.Contains(got, want) {
			t.Errorf("stored form lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, image1) {
		t.Errorf("stored form still has the old image:\n%s", got)
	}
}

func TestManagersOfPlainUpdatesAreBounded(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	must(c.Create(t.Context(), configMap("a", nil), client.WriteOptions{}))(t)
	data := map[string]string{}
	var last api.Object
	for i := range 30 {
		data[fmt.Sprint("k", i)] = "v"
		last = must(c.Update(t.Context(), configMap("a", data), client.WriteOptions{FieldManager: fmt.Sprint("script-", i)}))(t)
	}
	all := ""
	for _, m := range last.Meta().ManagedFields {
		all += string(m.FieldsV1)
	}
	if n := len(last.Meta().ManagedFields); n > 10 {
		t.Errorf("entries: got %d, want at most 10", n)
	}
	for k := range data {
		if !strings.Contains(all, `"f:`+k+`"`) {
			t.Errorf("nobody manages data.%s any more", k)
		}
	}
	again := must(c.Update(t.Context(), configMap("a", data), client.WriteOptions{FieldManager: "script-29"}))(t)
	if again.Meta().ResourceVersion != last.Meta().ResourceVersion {
		t.Errorf("the same update again wrote something")
	}
}

func TestTokenWithoutExpiryGetsOne(t *testing.T) {
	now := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	f := open(t, registry.Options{Now: func() time.Time { return now }})
	tok := &api.JoinToken{
		Metadata: api.ObjectMeta{Name: "t"},
		Spec:     api.JoinTokenSpec{SecretHash: "sha256:" + strings.Repeat("0", 64)},
	}
	got := must(f.user("alice").Create(t.Context(), tok, client.WriteOptions{}))(t).(*api.JoinToken)
	if want := now.Add(24 * time.Hour); !got.Spec.Expires.Equal(want) {
		t.Errorf("expires: got %v, want %v", got.Spec.Expires, want)
	}
}

func TestTransactionSizeIsLimited(t *testing.T) {
	f := open(t, registry.Options{})
	var tx client.Transaction
	for i := range 10 {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxCreate, Object: configMap(fmt.Sprint("c", i), map[string]string{"k": strings.Repeat("x", 1000<<10)})})
	}
	_, err := f.user("alice").Transact(t.Context(), tx)
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "8388608") {
		t.Errorf("got %v, want too large with the limit of 8388608 bytes", err)
	}
}

func TestRefusedReferencesReachNoOtherKey(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	for _, r := range []api.Ref{
		{Kind: api.KindConfigMap, Namespace: api.DefaultNS, Name: "../x"},
		{Kind: api.KindConfigMap, Namespace: "a/b", Name: "x"},
		{Kind: api.KindConfigMap, Name: "x"},
		{Kind: api.KindDevice, Namespace: "ns", Name: "x"},
		{Kind: api.KindDevice},
		{Name: "x"},
	} {
		if _, err := c.Get(t.Context(), r, client.GetOptions{}); !errors.Is(err, fault.BadRequest) {
			t.Errorf("get %+v: got %v, want bad request", r, err)
		}
	}
	if _, err := c.Create(t.Context(), &api.ConfigMap{TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Secret"}, Metadata: meta("x")}, client.WriteOptions{}); !errors.Is(err, fault.BadRequest) {
		t.Errorf("a ConfigMap that says it is a Secret: got %v, want bad request", err)
	}
}

func TestObjectOlderThanARuleCanStillBeReportedOn(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	must(alice.Create(t.Context(), workload("camera", image1), client.WriteOptions{}))(t)
	const key = "workloads/default/camera"
	raw := string(must(f.backend.Range(t.Context(), store.RangeRequest{Start: key}))(t).KVs[0].Value)
	lax := strings.Replace(raw, `"name":"main"`, `"name":"Main!"`, 1)
	must(f.backend.Propose(t.Context(), &store.Command{Actor: "hub:older", Ops: []store.Op{{Type: store.OpPut, Key: key, Value: []byte(lax)}}}))(t)
	w := must(alice.Get(t.Context(), refTo(workload("camera", "")), client.GetOptions{}))(t).DeepCopyObject().(*api.Workload)
	w.Status.ObservedGeneration = 1
	if _, err := f.As(registry.Actor{Name: "controller:workload"}).Update(t.Context(), w, client.WriteOptions{Subresource: "status"}); err != nil {
		t.Errorf("status of an object that breaks a newer rule: %v", err)
	}
	w.Metadata.ResourceVersion = ""
	w.Spec.Template.Spec.Containers[0].Image = ""
	if _, err := alice.Update(t.Context(), w, client.WriteOptions{}); !errors.Is(err, fault.Invalid) || strings.Contains(err.Error(), "Main!") {
		t.Errorf("making it worse: got %v, want the new fault named and not the old one", err)
	}
}

func TestDryRunIsNotMadeFromThePast(t *testing.T) {
	f := open(t, registry.Options{})
	past := f.backend.Revision()
	must(f.user("alice").Create(t.Context(), configMap("a", nil), client.WriteOptions{}))(t)
	b := &behind{LocalBackend: f.backend, at: past}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:bob"})
	if _, err := c.Create(t.Context(), configMap("a", nil), client.WriteOptions{DryRun: true}); !errors.Is(err, fault.AlreadyExists) {
		t.Errorf("dry run on a member that lags: got %v, want already exists", err)
	}
}
