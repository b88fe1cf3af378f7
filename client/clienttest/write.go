package clienttest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func createdObjectHasIdentity(h *harness) {
	in := configMap("a", map[string]string{"k": "v"})
	in.Metadata.Labels = map[string]string{"app": "x"}
	out := h.create(in).(*api.ConfigMap)
	m := out.Metadata
	if m.UID == "" || m.ResourceVersion == "" || m.CreationTimestamp.IsZero() {
		h.Fatalf("metadata: got uid %q, resourceVersion %q, creationTimestamp %v; want all set", m.UID, m.ResourceVersion, m.CreationTimestamp)
	}
	if in.Metadata.UID != "" {
		h.Fatalf("the object given to Create was changed")
	}
	got := h.get(ref(in)).(*api.ConfigMap)
	if d := cmp.Diff(out, got); d != "" {
		h.Fatalf("what Create returned differs from what Get returns (-create +get):\n%s", d)
	}
	if got.APIVersion != api.CoreV1 || got.Kind != "ConfigMap" || got.Data["k"] != "v" || got.Metadata.Labels["app"] != "x" {
		h.Fatalf("got %+v, want what was created", got)
	}
	again := h.create(configMap("b", nil))
	if again.Meta().UID == m.UID {
		h.Fatalf("two objects have uid %s", m.UID)
	}
}

func creatingATakenNameIsRefused(h *harness) {
	h.create(configMap("a", nil))
	_, err := h.Client.Create(h.ctx, configMap("a", map[string]string{"x": "y"}), client.WriteOptions{})
	h.wantClass(err, fault.AlreadyExists)
	if got := h.get(ref(configMap("a", nil))).(*api.ConfigMap); len(got.Data) != 0 {
		h.Fatalf("data: got %v, want none", got.Data)
	}
	o := configMap("c", nil)
	o.Metadata.ResourceVersion = "1"
	_, err = h.Client.Create(h.ctx, o, client.WriteOptions{})
	h.wantClass(err, fault.BadRequest)
}

func generatedNamesDiffer(h *harness) {
	o := configMap("", nil)
	o.Metadata.GenerateName = "gen-"
	a, b := h.create(o).Meta().Name, h.create(o).Meta().Name
	if a == b || !strings.HasPrefix(a, "gen-") || len(a) <= len("gen-") {
		h.Fatalf("names: got %q and %q, want two that begin with gen-", a, b)
	}
}

func missingObjectIsNotFound(h *harness) {
	r := ref(configMap("absent", nil))
	_, err := h.Client.Get(h.ctx, r, client.GetOptions{})
	h.wantClass(err, fault.NotFound)
	_, err = h.Client.Update(h.ctx, configMap("absent", nil), client.WriteOptions{})
	h.wantClass(err, fault.NotFound)
	h.wantClass(h.Client.Delete(h.ctx, r, client.DeleteOptions{}), fault.NotFound)
}

func namespacesMustExist(h *harness) {
	o := configMap("a", nil)
	o.Metadata.Namespace = "nowhere"
	_, err := h.Client.Create(h.ctx, o, client.WriteOptions{})
	h.wantClass(err, fault.NotFound)
	// A transaction may bring its namespace along, in any order.
	ns := &api.Namespace{TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Namespace"}, Metadata: api.ObjectMeta{Name: "nowhere"}}
	h.transact(h.Client, client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: o}, {Verb: client.TxApply, Object: ns}}})
	h.get(ref(o))
}

func invalidObjectNamesTheField(h *harness) {
	w := workload("bad", image("1"))
	w.Spec.Template.Spec.Containers = nil
	_, err := h.Client.Create(h.ctx, w, client.WriteOptions{})
	h.wantClass(err, fault.Invalid)
	if !strings.Contains(err.Error(), "spec.template.spec.containers") {
		h.Fatalf("error: got %q, want one that names spec.template.spec.containers", err)
	}
}

func oldResourceVersionConflicts(h *harness) {
	first := h.create(configMap("a", map[string]string{"n": "0"})).(*api.ConfigMap)
	next := api.Copy(first)
	next.Data["n"] = "1"
	second := h.update(next).(*api.ConfigMap)
	if second.Metadata.ResourceVersion == first.Metadata.ResourceVersion {
		h.Fatalf("resourceVersion: got %s after a change, want another", second.Metadata.ResourceVersion)
	}
	stale := api.Copy(first)
	stale.Data["n"] = "2"
	_, err := h.Client.Update(h.ctx, stale, client.WriteOptions{})
	h.wantClass(err, fault.Conflict)
	if got := h.get(ref(first)).(*api.ConfigMap).Data["n"]; got != "1" {
		h.Fatalf("data: got n=%s, want n=1", got)
	}
	other := api.Copy(second)
	other.Metadata.UID, other.Metadata.ResourceVersion = "00000000-0000-0000-0000-000000000000", ""
	_, err = h.Client.Update(h.ctx, other, client.WriteOptions{})
	h.wantClass(err, fault.Conflict)
}

func updateWithoutResourceVersion(h *harness) {
	first := h.create(configMap("a", map[string]string{"n": "0"}))
	got := h.update(configMap("a", map[string]string{"n": "1"})).(*api.ConfigMap)
	if got.Data["n"] != "1" || got.Metadata.UID != first.Meta().UID || !got.Metadata.CreationTimestamp.Equal(first.Meta().CreationTimestamp.Time) {
		h.Fatalf("got %+v, want n=1 with uid and creationTimestamp of the first", got)
	}
}

func concurrentUpdates(h *harness) {
	h.create(configMap("a", nil))
	const writers = 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = h.Client.Update(h.ctx, configMap("a", map[string]string{"writer": fmt.Sprint(i)}), client.WriteOptions{})
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			h.Errorf("writer %d: %v", i, err)
		}
	}
}

// Callers hand in objects of a cache, which others read at the same time: the race detector watches.
func objectsGivenMayBeShared(h *harness) {
	shared := h.create(workload("w", image("1"))).(*api.Workload)
	want := api.Copy(shared)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			tx := client.Transaction{DryRun: i%2 == 0, Items: []client.TxItem{{Verb: client.TxApply, Object: shared}, {Verb: client.TxUpdate, Object: shared}}}
			if _, errs[i] = h.Client.Transact(h.ctx, tx); fault.Is(errs[i], fault.Conflict) {
				errs[i] = nil // the apply of another was quicker
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			h.Error(err)
		}
	}
	if d := cmp.Diff(want, shared); d != "" {
		h.Fatalf("the object given was changed (-before +after):\n%s", d)
	}
}

func noopWritesNothing(h *harness) {
	first := h.create(configMap("a", map[string]string{"k": "v"})).(*api.ConfigMap)
	before := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	for _, o := range []*api.ConfigMap{first, configMap("a", map[string]string{"k": "v"})} {
		got := h.update(o)
		if got.Meta().ResourceVersion != first.Metadata.ResourceVersion {
			h.Fatalf("resourceVersion: got %s, want %s", got.Meta().ResourceVersion, first.Metadata.ResourceVersion)
		}
	}
	if after := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion; after != before {
		h.Fatalf("the hub's revision: got %s after updates that change nothing, want %s", after, before)
	}
}

func specAndStatusAreApart(h *harness) {
	in := workload("w", image("1"))
	in.Status.CurrentRevision = "smuggled"
	w := h.create(in).(*api.Workload)
	if w.Status.CurrentRevision != "" {
		h.Fatalf("status after create: got %q, want none", w.Status.CurrentRevision)
	}
	st := api.Copy(w)
	st.Status.CurrentRevision = "w-1"
	st.Spec.Template.Spec.Containers[0].Image = image("2")
	st.Metadata.Labels = map[string]string{"by": "status"}
	out, err := h.Hub.Update(h.ctx, st, client.WriteOptions{Subresource: "status"})
	if err != nil {
		h.Fatalf("status update: %v", err)
	}
	got := out.(*api.Workload)
	if got.Status.CurrentRevision != "w-1" || got.Spec.Template.Spec.Containers[0].Image != image("1") || len(got.Metadata.Labels) != 0 {
		h.Fatalf("after a status update: got revision %q, image %q, labels %v; want only the status to change",
			got.Status.CurrentRevision, got.Spec.Template.Spec.Containers[0].Image, got.Metadata.Labels)
	}
	sp := api.Copy(got)
	sp.Status.CurrentRevision = "mine"
	sp.Spec.Template.Spec.Containers[0].Image = image("3")
	after := h.update(sp).(*api.Workload)
	if after.Status.CurrentRevision != "w-1" || after.Spec.Template.Spec.Containers[0].Image != image("3") {
		h.Fatalf("after a spec update: got revision %q, image %q; want only the spec to change",
			after.Status.CurrentRevision, after.Spec.Template.Spec.Containers[0].Image)
	}
	_, err = h.Client.Update(h.ctx, configMap("c", nil), client.WriteOptions{Subresource: "status"})
	if err == nil {
		h.Fatalf("status update of a kind without status: got no error")
	}
}

func generationCountsSpecChanges(h *harness) {
	w := h.create(workload("w", image("1"))).(*api.Workload)
	want := func(o api.Object, n int64) {
		h.Helper()
		if g := o.Meta().Generation; g != n {
			h.Fatalf("generation: got %d, want %d", g, n)
		}
	}
	want(w, 1)
	l := api.Copy(w)
	l.Metadata.Labels = map[string]string{"a": "b"}
	l.Metadata.Generation = 77
	l = h.update(l).(*api.Workload)
	want(l, 1)
	s := api.Copy(l)
	s.Spec.Template.Spec.Containers[0].Image = image("2")
	s = h.update(s).(*api.Workload)
	want(s, 2)
	st := api.Copy(s)
	st.Status.ObservedGeneration = 2
	out, err := h.Hub.Update(h.ctx, st, client.WriteOptions{Subresource: "status"})
	if err != nil {
		h.Fatal(err)
	}
	want(out, 2)
}

func deletePreconditions(h *harness) {
	o := h.create(configMap("a", nil))
	h.wantClass(h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{UID: "11111111-1111-1111-1111-111111111111"}), fault.Conflict)
	changed := h.update(configMap("a", map[string]string{"k": "v"}))
	h.wantClass(h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{ResourceVersion: o.Meta().ResourceVersion}), fault.Conflict)
	if err := h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{UID: o.Meta().UID, ResourceVersion: changed.Meta().ResourceVersion}); err != nil {
		h.Fatalf("delete with preconditions that hold: %v", err)
	}
	h.wantClass(h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{}), fault.NotFound)
}

func finalizersHold(h *harness) {
	in := configMap("a", nil)
	in.Metadata.Finalizers = []string{"example.com/hold"}
	o := h.create(in)
	if err := h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	marked := h.get(ref(o)).(*api.ConfigMap)
	if marked.Metadata.DeletionTimestamp == nil {
		h.Fatalf("deletionTimestamp: got none, want one while a finalizer holds")
	}
	if err := h.Client.Delete(h.ctx, ref(o), client.DeleteOptions{}); err != nil {
		h.Fatalf("delete again: %v", err)
	}
	if again := h.get(ref(o)); again.Meta().ResourceVersion != marked.Metadata.ResourceVersion {
		h.Fatalf("deleting again wrote: resourceVersion got %s, want %s", again.Meta().ResourceVersion, marked.Metadata.ResourceVersion)
	}
	more := api.Copy(marked)
	more.Metadata.Finalizers = append(more.Metadata.Finalizers, "example.com/late")
	_, err := h.Client.Update(h.ctx, more, client.WriteOptions{})
	h.wantClass(err, fault.Invalid)
	free := api.Copy(marked)
	free.Metadata.Finalizers = nil
	h.update(free)
	_, err = h.Client.Get(h.ctx, ref(o), client.GetOptions{})
	h.wantClass(err, fault.NotFound)
}

func namespaceDeletion(h *harness) {
	ns := &api.Namespace{TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Namespace"}, Metadata: api.ObjectMeta{Name: "team"}}
	h.create(ns)
	in := configMap("a", nil)
	in.Metadata.Namespace = "team"
	h.create(in)
	if err := h.Client.Delete(h.ctx, ref(ns), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	if got := h.get(ref(ns)).(*api.Namespace); got.Status.Phase != "Terminating" || got.Metadata.DeletionTimestamp == nil {
		h.Fatalf("namespace with content: got phase %q, deletionTimestamp %v; want Terminating with one", got.Status.Phase, got.Metadata.DeletionTimestamp)
	}
	late := configMap("late", nil)
	late.Metadata.Namespace = "team"
	_, err := h.Client.Create(h.ctx, late, client.WriteOptions{})
	h.wantClass(err, fault.Forbidden)
	if err := h.Client.Delete(h.ctx, ref(in), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	if err := h.Client.Delete(h.ctx, ref(ns), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	_, err = h.Client.Get(h.ctx, ref(ns), client.GetOptions{})
	h.wantClass(err, fault.NotFound)
	// An empty one goes at once.
	h.create(ns)
	if err := h.Client.Delete(h.ctx, ref(ns), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	_, err = h.Client.Get(h.ctx, ref(ns), client.GetOptions{})
	h.wantClass(err, fault.NotFound)
	h.wantClass(h.Client.Delete(h.ctx, api.Ref{Kind: api.KindNamespace, Name: api.DefaultNS}, client.DeleteOptions{}), fault.Forbidden)
}

func tooLarge(h *harness) {
	big := configMap("big", map[string]string{"k": strings.Repeat("x", 1<<20)})
	_, err := h.Client.Create(h.ctx, big, client.WriteOptions{})
	h.wantClass(err, fault.TooLarge)
	if !strings.Contains(err.Error(), "1048576") {
		h.Fatalf("error: got %q, want one that names the limit of 1048576 bytes", err)
	}
}

func secretsComeBack(h *harness) {
	in := &api.Secret{
		TypeMeta:   api.TypeMeta{APIVersion: api.CoreV1, Kind: "Secret"},
		Metadata:   api.ObjectMeta{Name: "s", Namespace: api.DefaultNS},
		Data:       map[string][]byte{"bin": {0, 1, 255}, "empty": {}},
		StringData: map[string]string{"text": "hunter2"},
	}
	first := h.create(in).(*api.Secret)
	want := map[string][]byte{"bin": {0, 1, 255}, "empty": {}, "text": []byte("hunter2")}
	got := h.get(ref(in)).(*api.Secret)
	if d := cmp.Diff(want, got.Data); d != "" || len(got.StringData) != 0 {
		h.Fatalf("data (-want +got):\n%s\nstringData: got %d entries, want none", d, len(got.StringData))
	}
	if again := h.update(in); again.Meta().ResourceVersion != first.Metadata.ResourceVersion {
		h.Fatalf("update with the same values wrote: resourceVersion got %s, want %s", again.Meta().ResourceVersion, first.Metadata.ResourceVersion)
	}
}
