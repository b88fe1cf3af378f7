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

// stands is the precondition that an object is as it was read.
func stands(obj api.Object) client.Precondition {
	return client.Precondition{Ref: ref(obj), ResourceVersion: obj.Meta().ResourceVersion}
}

func (h *harness) wantPlanMoved(err error, name string) {
	h.Helper()
	h.wantClass(err, fault.Conflict)
	if !client.PlanMoved(err) || !strings.Contains(err.Error(), name) {
		h.Fatalf("error: got %v, want one that says that the plan moved, by %s", err, name)
	}
}

func transactionHoldsPreconditions(h *harness) {
	was := h.create(configMap("read", nil))
	absent := client.Precondition{Ref: ref(configMap("absent", nil))}
	tx := apply(configMap("written", nil))
	tx.If = []client.Precondition{stands(was), absent}
	h.transact(h.Client, tx)

	now := h.update(configMap("read", map[string]string{"k": "v"}))
	before := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion
	for _, tt := range []struct {
		pre  client.Precondition
		dry  bool
		name string
	}{
		{stands(was), false, "read"},
		{stands(was), true, "read"},
		{client.Precondition{Ref: ref(was)}, false, "read"},
		{client.Precondition{Ref: absent.Ref, ResourceVersion: was.Meta().ResourceVersion}, false, "absent"},
	} {
		tx := apply(configMap("other", nil))
		tx.DryRun, tx.If = tt.dry, []client.Precondition{stands(now), tt.pre}
		_, err := h.Client.Transact(h.ctx, tx)
		h.wantPlanMoved(err, tt.name)
	}
	if after := h.list(api.KindConfigMap, client.ListOptions{}).ResourceVersion; after != before {
		h.Fatalf("the hub's revision after refused transactions: got %s, want %s", after, before)
	}
	// A conflict of another sort asks for no new plan.
	tx = apply()
	tx.Items = []client.TxItem{{Verb: client.TxUpdate, Object: was}}
	_, err := h.Client.Transact(h.ctx, tx)
	h.wantClass(err, fault.Conflict)
	if client.PlanMoved(err) {
		h.Errorf("a stale update: got %v, want no word of a plan", err)
	}
	for _, bad := range []client.Precondition{
		{Ref: api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS}},
		{Ref: api.Ref{Kind: api.KindConfigMap}, Selection: &client.Selection{}},
		{Ref: ref(was), Selection: &client.Selection{}},
		{Ref: api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS}, Selection: &client.Selection{LabelSelector: "a in"}},
		{Ref: ref(was), ResourceVersion: "x"},
	} {
		tx := apply(configMap("other", nil))
		tx.If = []client.Precondition{bad}
		_, err := h.Client.Transact(h.ctx, tx)
		h.wantClass(err, fault.BadRequest)
	}
}

func labelled(name, set string) *api.ConfigMap {
	o := configMap(name, nil)
	o.Metadata.Labels = map[string]string{"set": set}
	return o
}

// transactionKeepsNewcomersOut holds also against writers of the same moment: what a plan selected is complete when it is carried out.
func transactionKeepsNewcomersOut(h *harness) {
	by := func(manager string, o api.Object) {
		tx := apply(o)
		tx.FieldManager = manager
		h.transact(h.Client, tx)
	}
	by("me", labelled("a", "x"))
	by("me", labelled("b", "y"))
	by("they", labelled("c", "x"))
	only := func(names ...string) []client.Precondition {
		return []client.Precondition{{
			Ref:       api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS},
			Selection: &client.Selection{LabelSelector: "set=x", AppliedBy: "me", Names: names},
		}}
	}
	tx := apply(configMap("w", nil))
	tx.If = only("a", "gone")
	h.transact(h.Client, tx)
	tx.If = only()
	_, err := h.Client.Transact(h.ctx, tx)
	h.wantPlanMoved(err, "a")
	by("me", labelled("d", "x"))
	tx.If = only("a")
	_, err = h.Client.Transact(h.ctx, tx)
	h.wantPlanMoved(err, "d")

	// A gate that falls once the selection has a member beyond a and d; whoever creates one competes with whoever passes the gate.
	var wg sync.WaitGroup
	const rounds = 20
	passed := make([]bool, rounds)
	for i := range rounds {
		set := fmt.Sprintf("r%d", i)
		gate := []client.Precondition{{
			Ref:       api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS},
			Selection: &client.Selection{LabelSelector: "set=" + set, AppliedBy: "me"},
		}}
		newcomer := client.Transaction{FieldManager: "me", Items: []client.TxItem{{Verb: client.TxApply, Object: labelled("new-"+set, set)}}}
		gated := client.Transaction{If: gate, Items: []client.TxItem{{Verb: client.TxCreate, Object: configMap("gated-"+set, nil)}}}
		wg.Go(func() {
			if _, err := h.Client.Transact(h.ctx, newcomer); err != nil {
				h.Errorf("newcomer: %v", err)
			}
		})
		wg.Go(func() {
			_, err := h.Other.Transact(h.ctx, gated)
			passed[i] = err == nil
			if err != nil && !client.PlanMoved(err) {
				h.Errorf("gated: %v", err)
			}
		})
		wg.Wait()
		if !passed[i] {
			continue
		}
		n, g := h.get(ref(labelled("new-"+set, set))), h.get(ref(configMap("gated-"+set, nil)))
		if a, b := n.Meta().ResourceVersion, g.Meta().ResourceVersion; len(a) < len(b) || len(a) == len(b) && a < b {
			h.Errorf("round %d: the newcomer is at %s, before what demanded that there is none, at %s", i, a, b)
		}
	}
}

func transactionTooLarge(h *harness) {
	tx := client.Transaction{}
	for range client.MaxItems + 1 {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxApply, Object: configMap("a", nil)})
	}
	_, err := h.Client.Transact(h.ctx, tx)
	h.wantClass(err, fault.TooLarge)
	if d := cmp.Diff(true, strings.Contains(err.Error(), fmt.Sprint(client.MaxItems))); d != "" {
		h.Errorf("error: got %v, want one with the limit", err)
	}
}
