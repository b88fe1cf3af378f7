package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// intruder lets others write between a plan and its transaction.
type intruder struct {
	client.Client
	before func(n int) // called before the n-th transaction that is no dry run
	n      int
}

func (i *intruder) Transact(ctx context.Context, tx client.Transaction) ([]client.TxResult, error) {
	if !tx.DryRun {
		i.n++
		i.before(i.n)
	}
	return i.Client.Transact(ctx, tx)
}

func labelled(name string, data ...string) *api.ConfigMap {
	o := &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS, Labels: map[string]string{"set": "x"}}, Data: map[string]string{},
	}
	for _, d := range data {
		o.Data[d] = "v"
	}
	return o
}

func applyAs(t *testing.T, c client.Client, manager string, o api.Object) {
	t.Helper()
	_, err := c.Transact(t.Context(), client.Transaction{FieldManager: manager, Items: []client.TxItem{{Verb: client.TxApply, Object: o}}})
	must(t, err)
}

// raced applies a set of a and b, with pruning, while others do what before says. It returns what stands afterwards.
func raced(t *testing.T, q *consent, before func(c client.Client, n int)) (tries int, names []string, err error) {
	t.Helper()
	h := startHub(t)
	c := h.as("user:alice")
	applyAs(t, c, "drover", labelled("old"))
	in := &intruder{Client: c, before: func(n int) { before(c, n) }}
	s := &set{hub: &connection{Client: in, namespace: api.DefaultNS}, manager: "drover", prune: true, selector: "set=x",
		items: []api.Item{{Object: labelled("a", "k")}, {Object: labelled("b")}}}
	plan, err := s.plan(t.Context())
	must(t, err)
	_, _, err = s.apply(t.Context(), plan, q)
	list, lerr := c.List(t.Context(), api.KindConfigMap, client.ListOptions{})
	must(t, lerr)
	for _, o := range list.Items {
		names = append(names, o.Meta().Name)
	}
	return in.n, names, err
}

func once(write func(c client.Client)) func(client.Client, int) {
	return func(c client.Client, n int) {
		if n == 1 {
			write(c)
		}
	}
}

func TestPlanIsMadeAnewWhereOthersWroteMeanwhile(t *testing.T) {
	for what, tt := range map[string]struct {
		write func(c client.Client)
		want  []string
	}{
		"nothing":         {func(client.Client) {}, []string{"a", "b"}},
		"somebody else's": {func(c client.Client) { applyAs(t, c, "other", labelled("theirs")) }, []string{"a", "b", "theirs"}},
		"already pruned": {func(c client.Client) {
			must(t, c.Delete(t.Context(), ref(api.KindConfigMap, "old"), client.DeleteOptions{}))
		}, []string{"a", "b"}},
		"already created": {func(c client.Client) { applyAs(t, c, "other", labelled("a", "theirs")) }, nil},
	} {
		t.Run(what, func(t *testing.T) {
			_, got, err := raced(t, &consent{out: &strings.Builder{}, confirm: 1}, once(tt.write))
			if tt.want == nil { // what was to be created is now to be changed: that is more than was agreed to
				if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "configmap/a configured") {
					t.Fatalf("got %v, want a conflict that names what grew", err)
				}
				return
			}
			must(t, err)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("what stands (-want +got):\n%s", d)
			}
		})
	}
}

func TestPlanThatGrewIsNotCarriedOutUnasked(t *testing.T) {
	newcomer := once(func(c client.Client) { applyAs(t, c, "drover", labelled("newcomer")) })
	var said strings.Builder
	_, got, err := raced(t, &consent{out: &said, confirm: 1}, newcomer)
	if fault.ExitCode(err) != fault.ExitConflict || !strings.Contains(err.Error(), "configmap/newcomer pruned") {
		t.Errorf("got %v, want a conflict that names the newcomer", err)
	}
	if d := cmp.Diff([]string{"newcomer", "old"}, got); d != "" {
		t.Errorf("what stands (-want +got):\n%s", d)
	}
	_, got, err = raced(t, &consent{out: &said, yes: true, confirm: -1}, newcomer)
	must(t, err)
	if d := cmp.Diff([]string{"a", "b"}, got); d != "" {
		t.Errorf("with --yes, what stands (-want +got):\n%s", d)
	}
	for answers, want := range map[string][]string{"y\ny\n": {"a", "b"}, "y\nn\n": {"newcomer", "old"}, "n\n": {"old"}, "": {"old"}} {
		_, got, err := raced(t, &consent{out: &said, in: bufio.NewReader(strings.NewReader(answers)), confirm: -1}, newcomer)
		if stopped := fault.ExitCode(err) == fault.ExitStopped; stopped != (len(want) != 2 || want[0] != "a") {
			t.Errorf("answers %q: got %v", answers, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("answers %q, what stands (-want +got):\n%s", answers, d)
		}
	}
}

func TestPlanningEndsWhenOthersNeverStop(t *testing.T) {
	n := 0
	tries, _, err := raced(t, &consent{out: &strings.Builder{}, yes: true, confirm: -1}, func(c client.Client, _ int) {
		n++
		applyAs(t, c, "other", labelled("old", fmt.Sprintf("k%d", n)))
	})
	if !client.PlanMoved(err) || tries != maxPlans {
		t.Errorf("got %v after %d tries, want the conflict after %d", err, tries, maxPlans)
	}
}

func TestMuchIsPrunedOnlyByItsCount(t *testing.T) {
	h := startHub(t)
	c := h.as("user:alice")
	for i := range pruneObjects + 2 {
		applyAs(t, c, "drover", labelled(fmt.Sprintf("o%d", i)))
	}
	s := &set{hub: &connection{Client: c, namespace: api.DefaultNS}, manager: "drover", prune: true, selector: "set=x", items: []api.Item{{Object: labelled("o0")}}}
	plan, err := s.plan(t.Context())
	must(t, err)
	for answer, ok := range map[string]bool{"11\n": true, "y\n": false, "10\n": false, "": false} {
		var said strings.Builder
		err := (&consent{out: &said, in: bufio.NewReader(strings.NewReader(answer)), confirm: -1, yes: true}).begin(plan)
		if (err == nil) != ok || err != nil && fault.ExitCode(err) != fault.ExitStopped {
			t.Errorf("answer %q: got %v, want agreed=%t", answer, err, ok)
		}
		if !strings.Contains(said.String(), "prune configmap/o1 of default") {
			t.Errorf("the question does not list what goes:\n%s", said.String())
		}
	}
	for confirm, ok := range map[int]bool{10: false, 11: true, 12: false} {
		if err := (&consent{out: io.Discard, confirm: confirm, yes: true}).begin(plan); (err == nil) != ok {
			t.Errorf("--confirm %d of a plan that prunes 11: got %v, want agreed=%t", confirm, err, ok)
		}
	}
	// A count that was given agrees to the plan that it is of, not to one that grew: who sits there is asked again.
	agreed, little := *plan, *plan
	agreed.pruned, agreed.results, little.pruned = plan.pruned[:10], plan.results[:len(plan.results)-1], plan.pruned[:2]
	for answer, ok := range map[string]bool{"11\n": true, "10\n": false} {
		err := (&consent{out: io.Discard, in: bufio.NewReader(strings.NewReader(answer)), confirm: 10}).again(&agreed, plan)
		if (err == nil) != ok {
			t.Errorf("the plan grew, answer %q: got %v, want agreed=%t", answer, err, ok)
		}
	}
	if err := (&consent{out: io.Discard, confirm: 10}).again(&agreed, plan); fault.ExitCode(err) != fault.ExitStopped {
		t.Errorf("the plan grew and nobody can be asked: got %v, want it stopped", err)
	}
	// Where little goes no count is needed, but one that is given must be right.
	for confirm, ok := range map[int]bool{-1: true, 1: false, 2: true, 3: false} {
		if err := (&consent{out: io.Discard, confirm: confirm, yes: true}).begin(&little); (err == nil) != ok {
			t.Errorf("--confirm %d of a plan that prunes 2: got %v, want agreed=%t", confirm, err, ok)
		}
	}
}

// A diff leads from the one text to the other, whatever they are, and is the shortest while it is short.
func TestDiffLeadsFromOneTextToTheOther(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	text := func() []string {
		out := make([]string, rng.IntN(30))
		for i := range out {
			out[i] = string(rune('a' + rng.IntN(6)))
		}
		return out
	}
	for range 3000 {
		a, b := text(), text()
		var left, right []string
		for _, e := range edits(a, b) {
			if e.op != '+' {
				left = append(left, e.lines...)
			}
			if e.op != '-' {
				right = append(right, e.lines...)
			}
		}
		if strings.Join(left, "") != strings.Join(a, "") || strings.Join(right, "") != strings.Join(b, "") {
			t.Fatalf("seed %d: %v to %v came out as %v to %v", seed, a, b, left, right)
		}
		if got, want := changes(edits(a, b)), len(a)+len(b)-2*longest(a, b); got != want {
			t.Fatalf("seed %d: %v to %v takes %d changes, want %d", seed, a, b, got, want)
		}
	}
	var a, b strings.Builder
	for i := range 3 * maxEdits {
		fmt.Fprintln(&a, "a", i)
		fmt.Fprintln(&b, "b", i)
	}
	if out := unified("a", "b", a.String(), b.String()); strings.Count(out, "\n") != 6*maxEdits+3 {
		t.Errorf("diff of two large texts: got %d lines, want all of both", strings.Count(out, "\n"))
	}
}

func changes(list []edit) int {
	n := 0
	for _, e := range list {
		if e.op != ' ' {
			n += len(e.lines)
		}
	}
	return n
}

// longest is the length of the longest common subsequence.
func longest(a, b []string) int {
	at := make([][]int, len(a)+1)
	for i := range at {
		at[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			if at[i+1][j+1] = max(at[i][j+1], at[i+1][j]); a[i] == b[j] {
				at[i+1][j+1] = at[i][j] + 1
			}
		}
	}
	return at[len(a)][len(b)]
}

func TestDiffIsInTheFormOfPatch(t *testing.T) {
	a := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n"
	b := "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n15a\n16\n"
	want := `--- a
+++ b
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
 8
@@ -13,4 +13,5 @@
 13
 14
 15
+15a
 16
`
	if d := cmp.Diff(want, unified("a", "b", a, b)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := unified("a", "/dev/null", "x\n", ""); !strings.Contains(got, "@@ -1,1 +0,0 @@\n-x\n") {
		t.Errorf("deletion: got %q", got)
	}
}
