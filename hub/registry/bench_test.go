package registry_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// noDisk plans and answers without applying, so that the registry's own cost shows.
type noDisk struct{ *registry.LocalBackend }

func (noDisk) Propose(_ context.Context, c *store.Command) (store.Result, error) {
	if _, err := store.EncodeCommand(&store.Command{Level: 1, Actor: c.Actor, RequestID: "r", If: c.If, Ops: c.Ops}); err != nil {
		return store.Result{}, err
	}
	return store.Result{Revisions: make([]store.Revision, len(c.Ops))}, nil
}

func benchRegistry(b *testing.B) (real, dry client.Client) {
	b.Helper()
	s, err := mvcc.Open(filepath.Join(b.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	l := registry.Local(s)
	sealer, err := registry.NewSealer([]byte(strings.Repeat("k", 32)))
	if err != nil {
		b.Fatal(err)
	}
	a := registry.Actor{Name: "user:bench"}
	r, err := registry.New(l, registry.Options{Sealer: sealer})
	if err != nil {
		b.Fatal(err)
	}
	d, err := registry.New(noDisk{l}, registry.Options{Sealer: sealer})
	if err != nil {
		b.Fatal(err)
	}
	if err := registry.EnsureNamespace(b.Context(), r.As(a), api.DefaultNS); err != nil {
		b.Fatal(err)
	}
	return r.As(a), d.As(a)
}

func BenchmarkStatusWrite(b *testing.B) {
	real, dry := benchRegistry(b)
	if _, err := real.Create(b.Context(), assignment("camera.pi-07", "pi-07"), client.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	a := assignment("camera.pi-07", "pi-07")
	for i := 0; b.Loop(); i++ {
		a.Status = api.AssignmentStatus{Phase: api.PhaseRunning, Ready: i%2 == 0, Message: fmt.Sprint(i), Containers: []api.ContainerStatus{{Name: "main", ID: "abc", State: "Running"}}}
		if _, err := dry.Update(b.Context(), a, client.WriteOptions{Subresource: "status"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	real, dry := benchRegistry(b)
	if _, err := real.Transact(b.Context(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: workload("w", image1)}}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := dry.Transact(b.Context(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: workload("w", image2)}}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefuseTooLarge(b *testing.B) {
	_, dry := benchRegistry(b)
	o := configMap("big", map[string]string{"k": strings.Repeat("x", 1<<20)})
	for b.Loop() {
		if _, err := dry.Create(b.Context(), o, client.WriteOptions{}); err == nil {
			b.Fatal("want a refusal")
		}
	}
}

func BenchmarkList1000(b *testing.B) {
	real, _ := benchRegistry(b)
	for page := range 10 {
		var tx client.Transaction
		for i := range 100 {
			tx.Items = append(tx.Items, client.TxItem{Verb: client.TxCreate, Object: assignment(fmt.Sprintf("camera.%d-%d", page, i), "pi")})
		}
		if _, err := real.Transact(b.Context(), tx); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		l, err := real.List(b.Context(), api.KindAssignment, client.ListOptions{})
		if err != nil || len(l.Items) != 1000 {
			b.Fatal(err, len(l.Items))
		}
	}
}
