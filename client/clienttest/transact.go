package clienttest

import (
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func actions(res []client.TxResult) []string {
	out := make([]string, 0, len(res))
	for _, r := range res {
		out = append(out, r.Action)
	}
	return out
}

func apply(objs ...api.Object) client.Transaction {
	tx := client.Transaction{}
	for _, o := range objs {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxApply, Object: o})
	}
	return tx
}

func transactionAllOrNothing(h *harness) {
	stale := h.create(configMap("old", nil)).(*api.ConfigMap)
	h.update(configMap("old", map[string]string{"k": "v"}))
	before := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	bad := workload("bad", image("1"))
	bad.Spec.Template.Spec.Containers = nil
	for _, tt := range []struct {
		item client.TxItem
		want fault.Class
	}{
		{client.TxItem{Verb: client.TxApply, Object: bad}, fault.Invalid},
		{client.TxItem{Verb: client.TxCreate, Object: configMap("old", nil)}, fault.AlreadyExists},
		{client.TxItem{Verb: client.TxUpdate, Object: configMap("absent", nil)}, fault.NotFound},
		{client.TxItem{Verb: client.TxDelete, Object: configMap("absent", nil)}, fault.NotFound},
		{client.TxItem{Verb: client.TxUpdate, Object: stale}, fault.Conflict},
		{client.TxItem{Verb: client.TxDelete, Object: stale}, fault.Conflict},
		{client.TxItem{Verb: "frobnicate", Object: configMap("x", nil)}, fault.BadRequest},
	} {
		_, err := h.Client.Transact(h.ctx, client.Transaction{Items: []client.TxItem{
			{Verb: client.TxApply, Object: configMap("good", nil)}, tt.item,
		}})
		h.wantClass(err, tt.want)
	}
	if after := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion; after != before {
		h.Fatalf("the hub's revision after refused transactions: got %s, want %s", after, before)
	}
}

func transactionInOrder(h *harness) {
	h.create(configMap("upd", nil))
	h.create(configMap("del", nil))
	h.create(configMap("same", map[string]string{"k": "v"}))
	res := h.transact(h.Client, client.Transaction{Items: []client.TxItem{
		{Verb: client.TxCreate, Object: configMap("new", nil)},
		{Verb: client.TxUpdate, Object: configMap("upd", map[string]string{"k": "v"})},
		{Verb: client.TxUpdate, Object: configMap("same", map[string]string{"k": "v"})},
		{Verb: client.TxDelete, Object: configMap("del", nil)},
		{Verb: client.TxUpdate, Object: configMap("new", map[string]string{"later": "item"})},
	}})
	if d := cmp.Diff([]string{"created", "configured", "unchanged", "deleted"}, actions(res)[:4]); d != "" {
		h.Errorf("actions (-want +got):\n%s", d)
	}
	got := h.get(ref(configMap("new", nil))).(*api.ConfigMap)
	if got.Data["later"] != "item" {
		h.Errorf("object written by two items: got %v, want the later one's data", got.Data)
	}
	if d := cmp.Diff(api.Object(got), res[0].Object); d != "" {
		h.Errorf("result (-stands +returned):\n%s", d)
	}
	if d := cmp.Diff([]string{"new", "same", "upd"}, names(h.list(api.KindConfigMap, client.ListOptions{}).Items)); d != "" {
		h.Errorf("what stands (-want +got):\n%s", d)
	}
}

func dryRunWritesNothing(h *harness) {
	h.create(configMap("a", nil))
	before := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	res := h.transact(h.Client, client.Transaction{DryRun: true, Items: []client.TxItem{
		{Verb: client.TxApply, Object: configMap("b", nil)},
		{Verb: client.TxUpdate, Object: configMap("a", map[string]string{"k": "v"})},
	}})
	if d := cmp.Diff([]string{"created", "configured"}, actions(res)); d != "" {
		h.Errorf("actions (-want +got):\n%s", d)
	}
	if got := res[1].Object.(*api.ConfigMap).Data["k"]; got != "v" {
		h.Errorf("object of a dry run: got k=%q, want what would stand", got)
	}
	if _, err := h.Client.Create(h.ctx, configMap("c", nil), client.WriteOptions{DryRun: true}); err != nil {
		h.Error(err)
	}
	if err := h.Client.Delete(h.ctx, ref(configMap("a", nil)), client.DeleteOptions{DryRun: true}); err != nil {
		h.Error(err)
	}
	_, err := h.Client.Create(h.ctx, configMap("a", nil), client.WriteOptions{DryRun: true})
	h.wantClass(err, fault.AlreadyExists)
	if after := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion; after != before {
		h.Fatalf("the hub's revision after dry runs: got %s, want %s", after, before)
	}
}

func applyOwnership(h *harness) {
	tx := apply(configMap("a", map[string]string{"mine": "1"}))
	tx.FieldManager = "alice"
	h.transact(h.Client, tx)
	// Another manager may add, and agree, but not change.
	tx = apply(configMap("a", map[string]string{"theirs": "1", "mine": "1"}))
	tx.FieldManager = "bob"
	h.transact(h.Other, tx)
	tx = apply(configMap("a", map[string]string{"mine": "2"}))
	tx.FieldManager = "carol"
	_, err := h.Other.Transact(h.ctx, tx)
	h.wantClass(err, fault.Conflict)
	for _, part := range []string{"alice", "bob", "carol", "data.mine"} {
		if !strings.Contains(err.Error(), part) {
			h.Errorf("conflict: got %q, want one that names %s", err, part)
		}
	}
	tx.Force = true
	h.transact(h.Other, tx)
	got := h.get(ref(configMap("a", nil))).(*api.ConfigMap)
	if d := cmp.Diff(map[string]string{"mine": "2", "theirs": "1"}, got.Data); d != "" {
		h.Fatalf("data (-want +got):\n%s", d)
	}
	owners := map[string]bool{}
	for _, m := range got.Metadata.ManagedFields {
		owners[m.Manager] = strings.Contains(string(m.FieldsV1), `"f:mine"`)
	}
	if owners["alice"] || owners["bob"] || !owners["carol"] {
		h.Errorf("managers of data.mine: got %v, want carol alone", owners)
	}
	// A plain update takes what it changes.
	if _, err := h.Client.Update(h.ctx, configMap("a", map[string]string{"mine": "3", "theirs": "1"}), client.WriteOptions{FieldManager: "dave"}); err != nil {
		h.Fatal(err)
	}
	tx.Force = false
	_, err = h.Other.Transact(h.ctx, tx)
	h.wantClass(err, fault.Conflict)
	if !strings.Contains(err.Error(), "dave") {
		h.Errorf("conflict after an update: got %q, want one that names dave", err)
	}
}

func applyRemoves(h *harness) {
	set := func(manager string, data map[string]string) {
		h.Helper()
		tx := apply(configMap("a", data))
		tx.FieldManager = manager
		h.transact(h.Client, tx)
	}
	set("alice", map[string]string{"a": "1", "shared": "1", "b": "1"})
	set("bob", map[string]string{"c": "1", "shared": "1"})
	set("alice", map[string]string{"a": "1"})
	got := h.get(ref(configMap("a", nil))).(*api.ConfigMap).Data
	if d := cmp.Diff(map[string]string{"a": "1", "c": "1", "shared": "1"}, got); d != "" {
		h.Fatalf("data (-want +got):\n%s", d)
	}
}

func applyTwice(h *harness) {
	w := workload("w", image("1"))
	first := h.transact(h.Client, apply(w, configMap("c", map[string]string{"k": "v"})))
	if d := cmp.Diff([]string{"created", "created"}, actions(first)); d != "" {
		h.Fatalf("actions (-want +got):\n%s", d)
	}
	before := h.list(api.KindWorkload, client.ListOptions{}).ResourceVersion
	again := h.transact(h.Client, apply(w, configMap("c", map[string]string{"k": "v"})))
	if d := cmp.Diff([]string{"unchanged", "unchanged"}, actions(again)); d != "" {
		h.Fatalf("actions of the same again (-want +got):\n%s", d)
	}
	if after := h.list(api.KindWorkload, client.ListOptions{}).ResourceVersion; after != before {
		h.Fatalf("the hub's revision: got %s, want %s", after, before)
	}
	next := workload("w", image("2"))
	res := h.transact(h.Client, apply(next))
	if got := res[0].Object.(*api.Workload); res[0].Action != "configured" || got.Metadata.Generation != 2 || got.Spec.Template.Spec.Containers[0].Image != image("2") {
		h.Fatalf("apply of a change: got %s, generation %d, image %s", res[0].Action, got.Metadata.Generation, got.Spec.Template.Spec.Containers[0].Image)
	}
}
