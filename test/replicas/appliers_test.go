package replicas

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

const applies = 80 // of each of the two, without a pause

// applier applies one ConfigMap over and over, each time with another value of its fields.
type applier struct {
	name   string
	fields []string
	c      client.Client
}

func (a *applier) apply(ctx context.Context, n int) error {
	data := map[string]string{}
	for _, f := range a.fields {
		data[f] = fmt.Sprintf("%s-%d", a.name, n)
	}
	_, err := a.c.Transact(ctx, client.Transaction{FieldManager: a.name, Items: []client.TxItem{{Verb: client.TxApply, Object: &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"}, Metadata: api.ObjectMeta{Name: "shared", Namespace: api.DefaultNS}, Data: data,
	}}}})
	return err
}

// Each through another member, and neither through the leader. No apply of either meets a conflict, and every version of the object has of each
// what that one applied last.
func TestTwoAppliersOfDifferentFieldsNeverConflictAndLoseNothing(t *testing.T) {
	c := start(t)
	f := c.Followers(c.Leader())
	first, second := hubOn(t, f[0]), hubOn(t, f[1])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	two := []*applier{
		{"git", []string{"a", "b"}, first.As(registry.Actor{Name: "user:git"})},
		{"ops", []string{"c", "d"}, second.As(registry.Actor{Name: "user:ops"})},
	}
	w, err := first.As(registry.Actor{Name: "user:watcher"}).Watch(ctx, api.KindConfigMap, client.WatchOptions{Namespace: api.DefaultNS})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var wg sync.WaitGroup
	for _, a := range two {
		wg.Go(func() {
			for n := range applies {
				if err := a.apply(ctx, n+1); err != nil {
					t.Errorf("apply %d of %s: %v", n+1, a.name, err)
					return
				}
			}
		})
	}
	seen := follow(ctx, t, w, two)
	wg.Wait()
	want := map[string]int{"git": applies, "ops": applies}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("the last apply of each that was seen (-want +got):\n%s", d)
	}
}

// follow checks every version: what an applier gave is of one apply, never goes, and never goes back. It ends with the last of both.
func follow(ctx context.Context, t *testing.T, w client.Watcher, two []*applier) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seen[two[0].name] < applies || seen[two[1].name] < applies {
		ev, err := w.Next(ctx)
		if err != nil {
			t.Errorf("watch: %v", err)
			return seen
		}
		if ev.Type == client.Bookmark || ev.Object.Meta().Name != "shared" {
			continue
		}
		for _, a := range two {
			n := versionOf(t, ev.Object.(*api.ConfigMap), a)
			if n < seen[a.name] {
				t.Errorf("revision %s: got apply %d of %s after %d", ev.Object.Meta().ResourceVersion, n, a.name, seen[a.name])
				return seen
			}
			seen[a.name] = n
		}
	}
	return seen
}

// versionOf is which apply the object's fields of an applier come from; 0 = none yet.
func versionOf(t *testing.T, o *api.ConfigMap, a *applier) int {
	t.Helper()
	version := -1
	for _, f := range a.fields {
		n := 0
		if v, ok := o.Data[f]; ok {
			if _, err := fmt.Sscanf(v, a.name+"-%d", &n); err != nil {
				t.Errorf("field %s: got %q, want a value of %s", f, v, a.name)
			}
		}
		if version >= 0 && n != version {
			t.Errorf("revision %s: fields of %s come from its applies %d and %d", o.Metadata.ResourceVersion, a.name, version, n)
		}
		version = n
	}
	return version
}

func TestTwoAppliersOfOneFieldAreBothNamedInTheConflict(t *testing.T) {
	c := start(t)
	f := c.Followers(c.Leader())
	first, second := hubOn(t, f[0]), hubOn(t, f[1])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	git := &applier{"git", []string{"a"}, first.As(registry.Actor{Name: "user:git"})}
	ops := &applier{"ops", []string{"a"}, second.As(registry.Actor{Name: "user:ops"})}
	if err := git.apply(ctx, 0); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range applies {
			if err := git.apply(ctx, n+1); err != nil {
				t.Errorf("apply %d of the field's owner: %v", n+1, err)
				return
			}
		}
	})
	for n := range applies {
		err := ops.apply(ctx, n+1)
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("apply %d of the other: got %v, want a conflict", n+1, err)
			break
		}
		for _, part := range []string{`"git"`, `"ops"`, "data.a"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("conflict: got %v, want one that names %s", err, part)
			}
		}
	}
	wg.Wait()
}
