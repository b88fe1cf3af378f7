package registry_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

// TestResealLeavesNothingToTheOldKey: more secrets than are read at a time, each of two values. That nothing needs the old key any more is
// judged without counting: it is dropped, and everything is read.
func TestResealLeavesNothingToTheOldKey(t *testing.T) {
	const secrets = 1003
	s := sealer(t)
	f := open(t, registry.Options{Sealer: s})
	tx := client.Transaction{}
	for i := range secrets {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxCreate, Object: &api.Secret{
			Metadata: api.ObjectMeta{Name: fmt.Sprintf("s%04d", i), Namespace: api.DefaultNS},
			Data:     map[string][]byte{"a": fmt.Appendf(nil, "first %d", i), "b": fmt.Appendf(nil, "second %d", i)},
		}})
	}
	must(f.user("alice").Transact(t.Context(), tx))(t)
	key := sha256.Sum256([]byte("another"))
	old, id := s.IDs()[0], registry.KeyIDOf(key[:])
	for _, step := range []func() error{
		func() error { return s.Add(key[:]) },
		func() error { return s.Prefer(id) },
		func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that skips a value would find it for ever
			defer cancel()
			return f.Reseal(ctx, registry.Actor{Name: "controller:sealing"}, id, func(int) {})
		},
		func() error { return s.Drop(old) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := f.user("alice").List(t.Context(), api.KindSecret, client.ListOptions{Namespace: api.DefaultNS})
	if err != nil {
		t.Fatalf("without the old key: %v", err)
	}
	if len(l.Items) != secrets {
		t.Errorf("got %d secrets, want %d", len(l.Items), secrets)
	}
	for i, o := range l.Items {
		data := o.(*api.Secret).Data
		if a, b := string(data["a"]), string(data["b"]); a != fmt.Sprint("first ", i) || b != fmt.Sprint("second ", i) {
			t.Errorf("secret %d: got %q and %q, want what it held", i, a, b)
		}
	}
}

// TestASecretIsSealedByTheKeyThatSealsWhenItIsWritten: the key changes between the plan and its command, behind the pass that seals again.
func TestASecretIsSealedByTheKeyThatSealsWhenItIsWritten(t *testing.T) {
	s := sealer(t)
	f := open(t, registry.Options{Sealer: s})
	key := sha256.Sum256([]byte("another"))
	if err := s.Add(key[:]); err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(registry.Sealing{Phase: registry.SealingActive, Active: registry.KeyIDOf(key[:]), Old: s.IDs()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	b := &racing{LocalBackend: f.backend, before: func() {
		res, err := f.backend.Propose(t.Context(), &store.Command{Actor: "controller:sealing", Ops: []store.Op{{Type: store.OpPut, Key: registry.KeySealing, Value: record}}})
		if err != nil || res.Err != nil {
			t.Errorf("change the key: %v, %v", err, res.Err)
		}
	}}
	c := must(registry.New(b, registry.Options{Sealer: s}))(t).As(registry.Actor{Name: "user:bob"})
	must(c.Create(t.Context(), &api.Secret{Metadata: api.ObjectMeta{Name: "s", Namespace: api.DefaultNS}, Data: map[string][]byte{"a": []byte("x")}}, client.WriteOptions{}))(t)
	got := must(registry.SealedValues(t.Context(), f.backend))(t)
	if d := cmp.Diff(map[string]int{registry.KeyIDOf(key[:]): 1}, got); d != "" {
		t.Errorf("values by key (-want +got):\n%s", d)
	}
}
