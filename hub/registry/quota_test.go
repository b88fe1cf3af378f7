package registry_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

func quotaNamed(t testing.TB, name string, hard map[string]string) *api.ResourceQuota {
	t.Helper()
	q := &api.ResourceQuota{Metadata: api.ObjectMeta{Name: name, Namespace: "default"}, Spec: api.ResourceQuotaSpec{Hard: api.ResourceList{}}}
	for k, v := range hard {
		n, err := api.ParseQuantity(v)
		if err != nil {
			t.Fatal(err)
		}
		q.Spec.Hard[k] = n
	}
	return q
}

func quotaMap(name string) *api.ConfigMap {
	return &api.ConfigMap{Metadata: api.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"k": name}}
}

// copyOf is an assignment that asks for this much.
func copyOf(t testing.TB, name, cpu string) *api.Assignment {
	t.Helper()
	a := &api.Assignment{Metadata: api.ObjectMeta{Name: name, Namespace: "default"}, Spec: api.AssignmentSpec{Workload: "w", Revision: "w-1", Device: "d-" + name}}
	if cpu != "" {
		q, err := api.ParseQuantity(cpu)
		if err != nil {
			t.Fatal(err)
		}
		a.Spec.Resources.Requests = api.ResourceList{"cpu": q}
	}
	return a
}

func used(t testing.TB, c client.Client, name string) map[string]string {
	t.Helper()
	o, err := c.Get(t.Context(), api.Ref{Kind: api.KindResourceQuota, Namespace: "default", Name: name}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q := o.(*api.ResourceQuota)
	out := map[string]string{}
	for k, v := range q.Status.Used {
		out[k] = v.String()
	}
	if len(q.Status.Used) != len(q.Spec.Hard) || !maps.EqualFunc(q.Status.Hard, q.Spec.Hard, api.Quantity.Equal) {
		t.Errorf("quota %s: got hard %v of %v and %d counts, want all of the limits", name, q.Status.Hard, q.Spec.Hard, len(q.Status.Used))
	}
	return out
}

func TestQuotaIsCountedInTheWriteThatAddsAndFreesInTheOneThatRemoves(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:test"})
	create := func(o api.Object) error {
		_, err := c.Create(t.Context(), o, client.WriteOptions{})
		return err
	}
	for _, o := range []api.Object{quotaMap("before"), copyOf(t, "a", "100m")} {
		if err := create(o); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Create(t.Context(), quotaNamed(t, "q", map[string]string{"configmaps": "3", "count/assignments.fleet.drover.dev": "2", "requests.cpu": "250m", "count/resourcequotas": "5"}), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := got.(*api.ResourceQuota).Status.Used["configmaps"]; n.String() != "1" {
		t.Errorf("the answer of the creation: got %s configmaps used, want what was there before", n)
	}
	want := map[string]string{"configmaps": "1", "count/assignments.fleet.drover.dev": "1", "requests.cpu": "100m", "count/resourcequotas": "1"}
	expect := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, used(t, c, "q")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	expect("made over what exists")

	// A set counts as a whole: the third is over, so none is made.
	_, err = c.Transact(t.Context(), client.Transaction{Items: []client.TxItem{
		{Verb: client.TxApply, Object: quotaMap("x")}, {Verb: client.TxApply, Object: quotaMap("y")}, {Verb: client.TxApply, Object: quotaMap("z")},
	}})
	const words = `configmaps "x" is forbidden: exceeded quota: q, requested: configmaps=3, used: configmaps=1, limited: configmaps=3`
	if !client.OverQuota(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
	expect("after a refused set")
	if err := create(copyOf(t, "b", "151m")); !client.OverQuota(err) || !strings.Contains(err.Error(), "requested: requests.cpu=151m, used: requests.cpu=100m, limited: requests.cpu=250m") {
		t.Errorf("got %v, want requests.cpu exceeded", err)
	}
	// A set may take what it gives back itself.
	_, err = c.Transact(t.Context(), client.Transaction{Items: []client.TxItem{
		{Verb: client.TxApply, Object: quotaMap("x")}, {Verb: client.TxApply, Object: quotaMap("y")}, {Verb: client.TxApply, Object: quotaMap("z")},
		{Verb: client.TxDelete, Object: quotaMap("before")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want["configmaps"] = "3"
	expect("after a set that takes and gives")
	if _, err := c.Create(t.Context(), quotaMap("dry"), client.WriteOptions{DryRun: true}); !client.OverQuota(err) {
		t.Errorf("dry run: got %v, want it counted", err)
	}

	if err := c.Delete(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: "x"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want["configmaps"] = "2"
	expect("after a deletion")
	if _, err := c.Create(t.Context(), quotaMap("dry"), client.WriteOptions{DryRun: true}); err != nil {
		t.Errorf("dry run within the limit: got %v", err)
	}
	expect("after a dry run")

	// A copy that moves to a revision that asks for more is charged the difference.
	o, err := c.Get(t.Context(), api.Ref{Kind: api.KindAssignment, Namespace: "default", Name: "a"}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	more := o.(*api.Assignment).DeepCopyObject().(*api.Assignment)
	more.Spec.Resources = copyOf(t, "a", "251m").Spec.Resources
	if _, err := c.Update(t.Context(), more, client.WriteOptions{}); !client.OverQuota(err) {
		t.Errorf("got %v, want the difference to exceed the quota", err)
	}
	more.Spec.Resources = copyOf(t, "a", "240m").Spec.Resources
	if _, err := c.Update(t.Context(), more, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	want["requests.cpu"] = "240m"
	expect("after an update")
}

// TestAmountsTooLargeToAddAreNotTakenForNone: two of them come to less than nothing in 64 bits, which would free the whole quota.
func TestAmountsTooLargeToAddAreNotTakenForNone(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:test"})
	for _, o := range []api.Object{quotaNamed(t, "q", map[string]string{"requests.cpu": "250m"}), copyOf(t, "a", "200m")} {
		if _, err := c.Create(t.Context(), o, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const most = "9223372036854775807m"
	for name, items := range map[string][]client.TxItem{
		"one beside what is used": {{Verb: client.TxCreate, Object: copyOf(t, "b", most)}},
		"two at once":             {{Verb: client.TxCreate, Object: copyOf(t, "b", most)}, {Verb: client.TxCreate, Object: copyOf(t, "c", most)}},
		"one for what goes":       {{Verb: client.TxCreate, Object: copyOf(t, "b", most)}, {Verb: client.TxDelete, Object: copyOf(t, "a", "")}},
	} {
		if _, err := c.Transact(t.Context(), client.Transaction{Items: items}); !client.OverQuota(err) {
			t.Errorf("%s: got %v, want requests.cpu exceeded", name, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"requests.cpu": "200m"}, used(t, c, "q")); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

func TestLimitsThatChangeAreCountedAndLoweredOnesHoldOnlyWhatAdds(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	for i := range 4 {
		if _, err := c.Create(t.Context(), quotaMap(fmt.Sprint("c", i)), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(hard map[string]string) {
		t.Helper()
		_, err := c.Transact(t.Context(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: quotaNamed(t, "q", hard)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	apply(map[string]string{"secrets": "1"})
	apply(map[string]string{"secrets": "1", "configmaps": "2"})
	if diff := cmp.Diff(map[string]string{"secrets": "0", "configmaps": "4"}, used(t, c, "q")); diff != "" {
		t.Errorf("after a new limit (-want +got):\n%s", diff)
	}
	if _, err := c.Create(t.Context(), quotaMap("more"), client.WriteOptions{}); !client.OverQuota(err) {
		t.Errorf("got %v, want nothing more above the limit", err)
	}
	o, err := c.Get(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: "c0"}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changed := o.DeepCopyObject().(*api.ConfigMap)
	changed.Data["k"] = "other"
	if _, err := c.Update(t.Context(), changed, client.WriteOptions{}); err != nil {
		t.Errorf("a change that adds nothing: got %v, want it allowed above the limit", err)
	}
	for i := range 3 {
		if err := c.Delete(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: fmt.Sprint("c", i)}, client.DeleteOptions{}); err != nil {
			t.Errorf("a deletion above the limit: got %v", err)
		}
	}
	apply(map[string]string{"configmaps": "2"})
	if diff := cmp.Diff(map[string]string{"configmaps": "1"}, used(t, c, "q")); diff != "" {
		t.Errorf("after a limit went (-want +got):\n%s", diff)
	}
}

func TestQuotaStatusIsACountThatNobodyWrites(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.As(registry.Actor{Name: "controller:quota"})
	q := quotaNamed(t, "q", map[string]string{"configmaps": "1"})
	q.Status.Used = api.ResourceList{"configmaps": api.MilliQuantity(-5000)}
	got, err := c.Create(t.Context(), q, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forged := got.DeepCopyObject().(*api.ResourceQuota)
	forged.Status.Used = nil
	if _, err := c.Update(t.Context(), forged, client.WriteOptions{Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"configmaps": "0"}, used(t, c, "q")); diff != "" {
		t.Errorf("after a forged status (-want +got):\n%s", diff)
	}
	w := workloadOf("w")
	if _, err := c.Transact(t.Context(), client.Transaction{Items: []client.TxItem{
		{Verb: client.TxApply, Object: quotaNamed(t, "cpu", map[string]string{"requests.cpu": "1"})}, {Verb: client.TxApply, Object: w}}}); !client.OverQuota(err) ||
		!strings.Contains(err.Error(), "failed quota: cpu: must specify requests.cpu for: main") {
		t.Errorf("a workload whose copies could not be counted: got %v", err)
	}
}

func workloadOf(name string) *api.Workload {
	n := int32(1)
	w := &api.Workload{Metadata: api.ObjectMeta{Name: name, Namespace: "default"}, Spec: api.WorkloadSpec{Placement: api.Placement{Replicas: &n, All: true}}}
	w.Spec.Template.Spec.Containers = []api.Container{{Name: "main", Image: "example.org/a@sha256:" + strings.Repeat("ab", 32)}}
	return w
}

// TestQuotaHoldsExactlyUnderConcurrentWriters: 50 writers want 300 places of 100, others free some of theirs in between.
func TestQuotaHoldsExactlyUnderConcurrentWriters(t *testing.T) {
	const writers, each, limit = 50, 6, 100
	f := open(t, registry.Options{})
	c := f.user("alice")
	if _, err := c.Create(t.Context(), quotaNamed(t, "q", map[string]string{"configmaps": fmt.Sprint(limit)}), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	made, refused := fight(t, writers, each, func(int) client.Client { return c })
	if made != limit || refused != writers*each-limit {
		t.Errorf("got %d made and %d refused, want %d and %d", made, refused, limit, writers*each-limit)
	}
	if diff := cmp.Diff(map[string]string{"configmaps": fmt.Sprint(limit)}, used(t, c, "q")); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

// fight has writers create config maps until each has tried its share; refusals must be of the quota.
func fight(t *testing.T, writers, each int, of func(writer int) client.Client) (made, refused int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := of(w).Create(t.Context(), quotaMap(fmt.Sprintf("c-%d-%d", w, i)), client.WriteOptions{})
				mu.Lock()
				switch {
				case err == nil:
					made++
				case client.OverQuota(err):
					refused++
				default:
					t.Errorf("writer %d: %v", w, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return made, refused
}

// TestUseEqualsACountOfWhatExistsWhateverIsWritten compares after random transactions, quotas among them.
func TestUseEqualsACountOfWhatExistsWhateverIsWritten(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := open(t, registry.Options{})
		c := f.As(registry.Actor{Name: "controller:test"})
		refused := 0
		for range 150 {
			var items []client.TxItem
			for range 1 + r.IntN(4) {
				items = append(items, randomItem(t, r))
			}
			_, err := c.Transact(t.Context(), client.Transaction{Items: items, FieldManager: "m", Force: true})
			if client.OverQuota(err) {
				refused++
			} else if err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			recount(t, seed, c)
		}
		if refused == 0 {
			t.Errorf("seed %d: no write was refused: the limits were never met", seed)
		}
	}
}

func randomItem(t *testing.T, r *rand.Rand) client.TxItem {
	var o api.Object
	switch r.IntN(7) {
	case 0:
		hard := map[string]string{}
		for _, name := range []string{"configmaps", "count/configmaps", "assignments", "requests.cpu"} {
			if r.IntN(2) == 0 {
				hard[name] = fmt.Sprint(1 + r.IntN(5))
			}
		}
		o = quotaNamed(t, fmt.Sprint("q", r.IntN(3)), hard)
	case 1, 2, 3:
		o = quotaMap(fmt.Sprint("c", r.IntN(8)))
	default:
		o = copyOf(t, fmt.Sprint("a", r.IntN(8)), fmt.Sprint(1+r.IntN(2000), "m"))
	}
	if r.IntN(3) == 0 {
		return client.TxItem{Verb: client.TxDelete, Object: o}
	}
	return client.TxItem{Verb: client.TxApply, Object: o}
}

func recount(t *testing.T, seed uint64, c client.Client) {
	t.Helper()
	list := func(k *api.Kind) []api.Object {
		l, err := c.List(t.Context(), k, client.ListOptions{Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		return l.Items
	}
	all := append(list(api.KindConfigMap), list(api.KindAssignment)...)
	for _, o := range list(api.KindResourceQuota) {
		q := o.(*api.ResourceQuota)
		want, got := map[string]int64{}, map[string]int64{}
		for name := range q.Spec.Hard {
			for _, o := range all {
				want[name] += api.QuotaCharge(name, o).Milli()
			}
			want[name] += 0
			got[name] = q.Status.Used[name].Milli()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, quota %s (-counted +used):\n%s", seed, q.Metadata.Name, diff)
		}
		if len(q.Status.Used) != len(q.Spec.Hard) {
			t.Fatalf("seed %d, quota %s: got counts of %v, want of %v", seed, q.Metadata.Name, slices.Sorted(maps.Keys(q.Status.Used)), slices.Sorted(maps.Keys(q.Spec.Hard)))
		}
	}
}

// TestWaiterForAQuotaLeavesTheLineWhenItsCallerGoes: a turn that nobody takes any more must not hold the others up.
func TestWaiterForAQuotaLeavesTheLineWhenItsCallerGoes(t *testing.T) {
	f := open(t, registry.Options{})
	c := f.user("alice")
	if _, err := c.Create(t.Context(), quotaNamed(t, "q", map[string]string{"configmaps": "1000"}), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if w%2 == 0 {
				go cancel()
			}
			defer cancel()
			for i := range 5 {
				_, err := c.Create(ctx, quotaMap(fmt.Sprintf("c-%d-%d", w, i)), client.WriteOptions{})
				if err != nil && (w%2 == 1 || ctx.Err() == nil) {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	recount(t, 0, c)
}

// TestQuotaThatIsMadeBetweenPlanAndCommandHolds: rule 1 of quota.go, for a namespace that had no quota, and for one that had another.
func TestQuotaThatIsMadeBetweenPlanAndCommandHolds(t *testing.T) {
	f := open(t, registry.Options{})
	alice := f.user("alice")
	b := &racing{LocalBackend: f.backend}
	c := must(registry.New(b, registry.Options{Sealer: sealer(t)}))(t).As(registry.Actor{Name: "user:bob"})
	must(c.Create(t.Context(), quotaMap("early"), client.WriteOptions{}))(t)
	for _, tt := range []struct {
		limit   string
		refused bool
	}{{"10", false}, {"2", true}} {
		b.before = func() {
			must(alice.Create(t.Context(), quotaNamed(t, "q"+tt.limit, map[string]string{"configmaps": tt.limit}), client.WriteOptions{}))(t)
		}
		_, err := c.Create(t.Context(), quotaMap("late-"+tt.limit), client.WriteOptions{})
		if client.OverQuota(err) != tt.refused || !tt.refused && err != nil {
			t.Errorf("a write that races the making of a quota of %s: got %v, want it refused: %t", tt.limit, err, tt.refused)
		}
		recount(t, 0, c)
	}
}

// deaf loses every command of one actor before it is ordered, as a member that dies before it.
type deaf struct {
	*registry.LocalBackend
	to string
}

func (d *deaf) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	if c.Actor == d.to {
		return store.Result{}, fault.Unavailable.Errorf("lost")
	}
	return d.LocalBackend.Propose(ctx, c)
}

// TestQuotaWhoseMakerDiedBeforeItCountedIsCountedByTheNextWrite: rule 3 of quota.go.
func TestQuotaWhoseMakerDiedBeforeItCountedIsCountedByTheNextWrite(t *testing.T) {
	f := open(t, registry.Options{})
	lame, err := registry.New(&deaf{f.backend, "hub:quota"}, registry.Options{Sealer: sealer(t)})
	if err != nil {
		t.Fatal(err)
	}
	c := lame.As(registry.Actor{Name: "user:alice"})
	for _, o := range []api.Object{quotaMap("a"), quotaMap("b"), quotaNamed(t, "q", map[string]string{"configmaps": "3", "secrets": "1"})} {
		if _, err := c.Create(t.Context(), o, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(t.Context(), quotaMap("c"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), quotaMap("d"), client.WriteOptions{}); !client.OverQuota(err) {
		t.Errorf("got %v, want the quota to hold though its maker never counted", err)
	}
	// What nothing depended on yet is counted for whoever writes the status, as the quota controller does.
	o, err := c.Get(t.Context(), api.Ref{Kind: api.KindResourceQuota, Namespace: "default", Name: "q"}, client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Update(t.Context(), o, client.WriteOptions{Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"configmaps": "3", "secrets": "0"}, used(t, c, "q")); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}
