package clienttest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func listPagesStandAtOneRevision(h *harness) {
	const n, page = 25, 4
	var want []string
	for i := range n {
		name := fmt.Sprintf("cm-%02d", i)
		h.create(configMap(name, nil))
		want = append(want, name)
	}
	o := client.ListOptions{Namespace: api.DefaultNS, Limit: page}
	var got []string
	var at string
	for i := 0; ; i++ {
		l := h.list(api.KindConfigMap, o)
		if at == "" {
			at = l.ResourceVersion
		}
		if l.ResourceVersion != at {
			h.Fatalf("page %d: resourceVersion got %s, want %s as on the first", i, l.ResourceVersion, at)
		}
		got = append(got, names(l.Items)...)
		if left := n - len(got); l.Remaining != left {
			h.Fatalf("page %d: remaining got %d, want %d", i, l.Remaining, left)
		}
		if l.Continue == "" {
			break
		}
		o.Continue = l.Continue
		// Writes between the pages: before, on and after the place of the cursor.
		h.create(configMap(fmt.Sprintf("aa-%02d", i), nil))
		h.create(configMap(fmt.Sprintf("cm-%02dx", len(got)), nil))
		if i < n {
			h.update(configMap("cm-24", map[string]string{"i": strconv.Itoa(i)}))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("names over all pages (-want +got):\n%s", d)
	}
	// The pages' revision continues as a watch.
	w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: at})
	h.wantEvent(w, client.Added, "aa-00")
}

func forgedContinueTokenIsRefused(h *harness) {
	for i := range 3 {
		h.create(configMap(fmt.Sprint("c", i), nil))
	}
	l := h.list(api.KindConfigMap, client.ListOptions{Limit: 1})
	for _, token := range []string{"x", "e30", l.Continue + "zz"} {
		_, err := h.Client.List(h.ctx, api.KindConfigMap, client.ListOptions{Limit: 1, Continue: token})
		h.wantClass(err, fault.BadRequest)
	}
	// A token of one kind opens no other.
	_, err := h.Client.List(h.ctx, api.KindSecret, client.ListOptions{Limit: 1, Continue: l.Continue})
	h.wantClass(err, fault.BadRequest)
}

func selectorsSelect(h *harness) {
	for _, c := range []struct{ name, app, tier string }{{"a", "web", "front"}, {"b", "web", "back"}, {"c", "db", ""}} {
		o := configMap(c.name, nil)
		o.Metadata.Labels = map[string]string{"app": c.app}
		if c.tier != "" {
			o.Metadata.Labels["tier"] = c.tier
		}
		h.create(o)
	}
	h.create(&api.Namespace{TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Namespace"}, Metadata: api.ObjectMeta{Name: "other"}})
	elsewhere := configMap("a", nil)
	elsewhere.Metadata.Namespace = "other"
	h.create(elsewhere)
	for _, tt := range []struct {
		o    client.ListOptions
		want []string
	}{
		{client.ListOptions{Namespace: api.DefaultNS}, []string{"a", "b", "c"}},
		{client.ListOptions{}, []string{"a", "b", "c", "a"}},
		{client.ListOptions{LabelSelector: "app=web"}, []string{"a", "b"}},
		{client.ListOptions{LabelSelector: "app!=web", Namespace: api.DefaultNS}, []string{"c"}},
		{client.ListOptions{LabelSelector: "app in (web,db),tier"}, []string{"a", "b"}},
		{client.ListOptions{LabelSelector: "!tier", Namespace: api.DefaultNS}, []string{"c"}},
		{client.ListOptions{LabelSelector: "app=web", Limit: 1}, []string{"a"}},
		{client.ListOptions{FieldSelector: "metadata.name=a"}, []string{"a", "a"}},
		{client.ListOptions{FieldSelector: "metadata.name=a", Namespace: "other"}, []string{"a"}},
		{client.ListOptions{FieldSelector: "metadata.namespace=other"}, []string{"a"}},
		{client.ListOptions{FieldSelector: "metadata.name!=a", Namespace: api.DefaultNS}, []string{"b", "c"}},
		{client.ListOptions{FieldSelector: "metadata.name=nobody", Namespace: api.DefaultNS}, []string{}},
		{client.ListOptions{FieldSelector: "metadata.namespace=other", Namespace: api.DefaultNS}, []string{}},
	} {
		if d := cmp.Diff(tt.want, names(h.list(api.KindConfigMap, tt.o).Items)); d != "" {
			h.Errorf("list %+v (-want +got):\n%s", tt.o, d)
		}
	}
}

func unknownSelectorIsRefused(h *harness) {
	for _, o := range []client.ListOptions{{LabelSelector: "app in web"}, {FieldSelector: "data.k=v"}, {FieldSelector: "metadata.name"}} {
		_, err := h.Client.List(h.ctx, api.KindConfigMap, o)
		h.wantClass(err, fault.BadRequest)
	}
}

func watchYieldsEachChangeOnce(h *harness) {
	at := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: at, Namespace: api.DefaultNS})
	h.create(configMap("a", nil))
	h.create(workload("not-a-configmap", image("1")))
	mod := h.update(configMap("a", map[string]string{"k": "v"}))
	h.update(configMap("a", map[string]string{"k": "v"})) // changes nothing
	h.create(configMap("b", nil))
	if err := h.Client.Delete(h.ctx, ref(mod), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	first := h.wantEvent(w, client.Added, "a")
	changed := h.wantEvent(w, client.Modified, "a")
	if d := cmp.Diff(mod, changed); d != "" {
		h.Errorf("modified object (-updated +event):\n%s", d)
	}
	second := h.wantEvent(w, client.Added, "b")
	gone := h.wantEvent(w, client.Deleted, "a").(*api.ConfigMap)
	if gone.Data["k"] != "v" {
		h.Errorf("deleted object: got data %v, want the last state", gone.Data)
	}
	var last uint64
	for _, o := range []api.Object{first, changed, second, gone} {
		rv, err := strconv.ParseUint(o.Meta().ResourceVersion, 10, 64)
		if err != nil || rv <= last {
			h.Fatalf("resourceVersion of %s: got %q after %d, want a higher number", o.Meta().Name, o.Meta().ResourceVersion, last)
		}
		last = rv
	}
}

func watchResumes(h *harness) {
	at := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	// Sets of three, so that resuming lands inside of one as well.
	const sets = 6
	var want []string
	for i := range sets {
		var items []client.TxItem
		for j := range 3 {
			name := fmt.Sprintf("s%d-%d", i, j)
			items = append(items, client.TxItem{Verb: client.TxCreate, Object: configMap(name, nil)})
			want = append(want, name)
		}
		h.transact(h.Client, client.Transaction{Items: items})
	}
	var got []string
	for len(got) < len(want) {
		w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: at})
		for range 2 { // then the connection "breaks"
			ev := h.next(w)
			got, at = append(got, ev.Object.Meta().Name), ev.Object.Meta().ResourceVersion
		}
		w.Close()
	}
	if d := cmp.Diff(want, got); d != "" {
		h.Fatalf("names over all connections (-want +got):\n%s", d)
	}
}

func watchFromNow(h *harness) {
	h.create(configMap("a", nil))
	h.create(configMap("b", nil))
	w := h.watch(api.KindConfigMap, client.WatchOptions{Namespace: api.DefaultNS})
	h.wantEvent(w, client.Added, "a")
	h.wantEvent(w, client.Added, "b")
	ev, err := w.Next(h.ctx)
	if err != nil || ev.Type != client.Bookmark || ev.Object.Meta().ResourceVersion == "" {
		h.Fatalf("after what is there: got %v %v, want a bookmark with a resourceVersion", ev.Type, err)
	}
	h.create(configMap("c", nil))
	h.wantEvent(w, client.Added, "c")
}

func watchTellsTransitions(h *harness) {
	labelled := func(v string) *api.ConfigMap {
		o := configMap("a", map[string]string{"label": v})
		o.Metadata.Labels = map[string]string{"ring": v}
		return o
	}
	at := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: at, LabelSelector: "ring=canary"})
	h.create(labelled("prod"))
	h.update(labelled("canary"))
	inside := labelled("canary")
	inside.Data["more"] = "x"
	h.update(inside)
	left := h.update(labelled("prod"))
	h.update(labelled("canary"))
	if err := h.Client.Delete(h.ctx, ref(left), client.DeleteOptions{}); err != nil {
		h.Fatal(err)
	}
	h.wantEvent(w, client.Added, "a")
	h.wantEvent(w, client.Modified, "a")
	out := h.wantEvent(w, client.Deleted, "a")
	if out.Meta().Labels["ring"] != "canary" || out.Meta().ResourceVersion != left.Meta().ResourceVersion {
		h.Fatalf("object that left: got ring %q at %s, want its last selected state (canary) at %s",
			out.Meta().Labels["ring"], out.Meta().ResourceVersion, left.Meta().ResourceVersion)
	}
	h.wantEvent(w, client.Added, "a")
	h.wantEvent(w, client.Deleted, "a")
}

func watchOfTheFuture(h *harness) {
	at := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	n, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		h.Fatal(err)
	}
	_, err = h.firstEvent(client.WatchOptions{ResourceVersion: strconv.FormatUint(n+1000, 10)})
	h.wantClass(err, fault.Ahead)
	_, err = h.firstEvent(client.WatchOptions{ResourceVersion: strconv.FormatUint(n+7<<40, 10)})
	h.wantClass(err, fault.OtherEpoch)
	_, err = h.firstEvent(client.WatchOptions{ResourceVersion: "yesterday"})
	h.wantClass(err, fault.BadRequest)
}

// firstEvent lets a refusal come with the call or as the first event, as transports differ.
func (h *harness) firstEvent(o client.WatchOptions) (client.Event, error) {
	w, err := h.Client.Watch(h.ctx, api.KindConfigMap, o)
	if err != nil {
		return client.Event{}, err
	}
	defer w.Close()
	return w.Next(h.ctx)
}

func compactedRevisionIsExpired(h *harness) {
	if h.Compact == nil {
		return
	}
	for i := range 3 {
		h.create(configMap(fmt.Sprint("c", i), nil))
	}
	l := h.list(api.KindConfigMap, client.ListOptions{Limit: 1})
	h.update(configMap("c0", map[string]string{"k": "v"}))
	h.update(configMap("c0", map[string]string{"k": "w"}))
	if err := h.Compact(h.ctx); err != nil {
		h.Fatalf("compact: %v", err)
	}
	_, err := h.firstEvent(client.WatchOptions{ResourceVersion: l.ResourceVersion})
	h.wantClass(err, fault.Expired)
	_, err = h.Client.List(h.ctx, api.KindConfigMap, client.ListOptions{Limit: 1, Continue: l.Continue})
	h.wantClass(err, fault.Expired)
	again := h.list(api.KindConfigMap, client.ListOptions{})
	w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: again.ResourceVersion})
	h.create(configMap("d", nil))
	h.wantEvent(w, client.Added, "d")
}

func transactionIsSeenWhole(h *harness) {
	at := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	const pairs = 20
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		for i := range pairs {
			v := map[string]string{"i": strconv.Itoa(i)}
			_, err := h.Client.Transact(ctx, client.Transaction{Items: []client.TxItem{
				{Verb: client.TxApply, Object: configMap("left", v)}, {Verb: client.TxApply, Object: configMap("right", v)},
			}})
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				h.Fatal(err)
			}
			running = false
		default:
		}
		l := h.list(api.KindConfigMap, client.ListOptions{Namespace: api.DefaultNS})
		switch len(l.Items) {
		case 0:
		case 2:
			a, b := l.Items[0].(*api.ConfigMap).Data["i"], l.Items[1].(*api.ConfigMap).Data["i"]
			if a != b {
				h.Fatalf("list at %s: left has %s and right has %s, want the same", l.ResourceVersion, a, b)
			}
		default:
			h.Fatalf("list at %s: got %v, want both or none", l.ResourceVersion, names(l.Items))
		}
	}
	w := h.watch(api.KindConfigMap, client.WatchOptions{ResourceVersion: at})
	for i := range pairs {
		for _, name := range []string{"left", "right"} {
			if ev := h.next(w); ev.Object.Meta().Name != name || ev.Object.(*api.ConfigMap).Data["i"] != strconv.Itoa(i) {
				h.Fatalf("event of pair %d: got %s %v, want %s", i, ev.Object.Meta().Name, ev.Object.(*api.ConfigMap).Data, name)
			}
		}
	}
}
