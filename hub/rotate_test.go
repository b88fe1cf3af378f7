package hub

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/hub/tokens"
)

func secret(name, value string) *api.Secret {
	return &api.Secret{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "Secret"}, Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS},
		Data: map[string][]byte{"a": []byte(value), "b": []byte("fixed")},
	}
}

func secretRef(name string) api.Ref {
	return api.Ref{Kind: api.KindSecret, Namespace: api.DefaultNS, Name: name}
}

// sealingOf is the state as a member has it.
func sealingOf(t *testing.T, h *running) *remote.Sealing {
	t.Helper()
	s, err := h.sealing(within(t, 20*time.Second))
	check(t, err)
	return s
}

func rotate(t *testing.T, h *running, restart bool) {
	t.Helper()
	q := url.Values{}
	if restart {
		q.Set("restart", "true")
	}
	_, err := h.startRotation(within(t, 20*time.Second), q)
	check(t, err)
}

// onlyBy demands that everything is sealed by the active key, on a member.
func onlyBy(t *testing.T, h *running) {
	t.Helper()
	s := sealingOf(t, h)
	if len(s.Values) != 1 || s.Values[s.Active] == 0 {
		t.Errorf("%s: values by key: got %v, want all by %s", h.id.Name, s.Values, s.Active)
	}
}

func TestSealingKeyIsChangedWhileSecretsAreWrittenAndRead(t *testing.T) {
	h, admin := three(t)
	const quiet, busy = 40, 6
	for i := range quiet {
		_, err := admin.Create(t.Context(), secret(fmt.Sprintf("quiet-%d", i), fmt.Sprint("value ", i)), client.WriteOptions{})
		check(t, err)
	}
	_, err := admin.Create(t.Context(), &api.ServiceAccount{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ServiceAccount"}, Metadata: api.ObjectMeta{Name: "ci", Namespace: api.DefaultNS},
	}, client.WriteOptions{})
	check(t, err)
	issued, err := h[2].tokens.Issue(t.Context(), tokens.Request{Namespace: api.DefaultNS, Account: "ci"})
	check(t, err)
	first := sealingOf(t, h[0]).Active
	oldBackup, oldKey := saved(t, h[0], admin)
	before, err := admin.Get(t.Context(), secretRef("quiet-7"), client.GetOptions{})
	check(t, err)
	hashed := h[1].sealer.KeyedHash([]byte("x"))

	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range busy {
		wg.Go(func() {
			c := h[i%3].as("user:busy")
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := c.Transact(t.Context(), client.Transaction{Items: []client.TxItem{{Verb: client.TxApply, Object: secret(fmt.Sprint("busy-", i), fmt.Sprint(n))}}})
				if err != nil {
					t.Errorf("write %d: %v", n, err)
					return
				}
				got, err := h[(i+1)%3].as("user:busy").Get(t.Context(), secretRef(fmt.Sprint("busy-", i)), client.GetOptions{})
				if err != nil || string(got.(*api.Secret).Data["a"]) != fmt.Sprint(n) {
					t.Errorf("read back: got %v (%v), want %d", got, err, n)
					return
				}
			}
		})
	}
	rotate(t, h[1], false) // any member may be asked
	await(t, "the key is changed", func() bool { return sealingOf(t, h[2]).Phase == registry.SealingDone })
	onlyBy(t, h[0])
	close(stop)
	wg.Wait()
	for _, m := range h {
		onlyBy(t, m)
		if ids := m.sealer.IDs(); len(ids) != 2 || ids[0] == first || ids[1] != first {
			t.Errorf("keys of %s: got %v, want the new one before %s", m.id.Name, ids, first)
		}
		if !bytes.Equal(m.sealer.KeyedHash([]byte("x")), hashed) {
			t.Errorf("%s hashes otherwise than before: devices would take every secret for changed", m.id.Name)
		}
		kept, err := registry.OpenSealer(m.dir.path(fileSealing))
		check(t, err)
		if d := cmp.Diff(m.sealer.IDs(), kept.IDs()); d != "" {
			t.Errorf("key file of %s (-holds +file):\n%s", m.id.Name, d)
		}
	}
	// Of the object only the resourceVersion is another, and one line tells of it.
	after, err := admin.Get(t.Context(), secretRef("quiet-7"), client.GetOptions{})
	check(t, err)
	after.Meta().ResourceVersion = before.Meta().ResourceVersion
	if a, b := mustJSON(t, before), mustJSON(t, after); a != b {
		t.Errorf("the object:\n%s\nwas\n%s", b, a)
	}
	recs, err := h[0].store.RecordsOf(registry.KeyOf(secretRef("quiet-7")), 10)
	check(t, err)
	if len(recs) != 2 || recs[0].Note.Verb != "reseal" || len(recs[0].Note.Diff) > 0 {
		t.Errorf("journal: got %+v, want the creation and one line", recs)
	}

	oldKeysAreDroppedOnceNothingNeedsThem(t, h[:], admin, first)
	tokensAreStillGood(t, h[:], string(issued.Text))
	backupsWantTheirKeys(t, h[0], admin, first, oldBackup, oldKey)
}

func mustJSON(t *testing.T, o api.Object) string {
	t.Helper()
	b, err := api.Encode(o)
	check(t, err)
	return string(b)
}

func oldKeysAreDroppedOnceNothingNeedsThem(t *testing.T, h []*running, admin *remote.Client, first string) {
	t.Helper()
	_, err := h[0].dropKeys(within(t, 20*time.Second), nil)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "can still be read") {
		t.Fatalf("dropping while history needs the key: got %v, want a refusal that says so", err)
	}
	check(t, admin.HubDo(within(t, 20*time.Second), remote.HubCompactOp, url.Values{"keep": {"0"}}, nil))
	_, err = h[0].dropKeys(within(t, 20*time.Second), nil)
	check(t, err)
	await(t, "every member has dropped the old key", func() bool {
		return !slices.ContainsFunc(h, func(m *running) bool { return m.sealer.Has(first) })
	})
	for i, m := range h {
		got, err := m.as("user:reader").Get(t.Context(), secretRef("quiet-3"), client.GetOptions{})
		if err != nil || string(got.(*api.Secret).Data["a"]) != "value 3" {
			t.Errorf("h%d afterwards: got %v (%v)", i+1, got, err)
		}
	}
}

// tokensAreStillGood: the key that signed a token is opened anew by each member, and has no old key to be opened by.
func tokensAreStillGood(t *testing.T, h []*running, text string) {
	t.Helper()
	for _, m := range h {
		fresh, err := tokens.New(tokens.Config{ // it remembers nothing of what was opened before
			Member: m.id.Name, Backend: m.replica, Sealer: m.sealer, Client: m.as("hub:" + m.id.Name), Cluster: func() (string, bool) { return *m.cluster.Load(), true },
		})
		check(t, err)
		id, _, err := fresh.Verify(within(t, 20*time.Second), text, nil)
		if err != nil || id.Name != "system:serviceaccount:default:ci" {
			t.Errorf("token on %s: got %+v, %v; want the account's", m.id.Name, id, err)
		}
	}
}

func backupsWantTheirKeys(t *testing.T, h *running, admin *remote.Client, first, oldBackup, oldKey string) {
	t.Helper()
	newBackup, newKey := saved(t, h, admin)
	for _, tt := range []struct{ file, key, lacks string }{
		{oldBackup, oldKey, ""}, {newBackup, newKey, ""}, {oldBackup, newKey, first}, {newBackup, oldKey, h.sealer.IDs()[0]},
	} {
		_, err := RestoreBackup(t.Context(), filepath.Join(t.TempDir(), "hub"), RestoreOptions{File: tt.file, Key: tt.key, Identity: identity(t, "h9"), DryRun: true})
		switch {
		case tt.lacks == "" && err != nil:
			t.Errorf("restore with the key of its time: %v", err)
		case tt.lacks != "" && (err == nil || !strings.Contains(err.Error(), tt.lacks)):
			t.Errorf("restore with another key: got %v, want an error that names the key %s", err, tt.lacks)
		}
	}
}

func TestChangeOfTheKeyWaitsForAMemberThatIsAwayAndOutlivesItsLeader(t *testing.T) {
	h, admin := three(t)
	for i := range 300 {
		tx := client.Transaction{}
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxCreate, Object: secret(fmt.Sprint("s-", i), fmt.Sprint("value ", i))})
		_, err := admin.Transact(t.Context(), tx)
		check(t, err)
	}
	h[2].stop()
	rotate(t, h[0], false)
	await(t, "it waits for h3", func() bool {
		s := sealingOf(t, h[1])
		return len(s.Waiting) == 1 && strings.HasPrefix(s.Waiting[0], "h3 ")
	})
	if err := h[0].rotateStep(within(t, 20*time.Second), 0); err == nil || !strings.HasPrefix(err.Error(), "h3 ") {
		t.Errorf("a step while h3 lacks the key: got %v, want it to wait for h3", err)
	}
	if s := sealingOf(t, h[1]); s.Phase != registry.SealingSpread || s.Values[s.Next] != 0 {
		t.Errorf("while a member lacks the key: got %+v, want nothing sealed by it", s)
	}
	_, err := admin.Create(t.Context(), secret("meanwhile", "x"), client.WriteOptions{})
	check(t, err)
	back := run(t, h[2].cfg)
	await(t, "the new key seals", func() bool { return sealingOf(t, h[1]).Phase != registry.SealingSpread })
	if h[0].node.Status().Leader == h[0].node.Status().ID {
		h[0].stop() // in the middle, most likely
	}
	await(t, "another leader finishes it", func() bool { return sealingOf(t, h[1]).Phase == registry.SealingDone })
	onlyBy(t, h[1])
	onlyBy(t, back)
}

// A key whose maker is gone for good before anybody had it has sealed nothing, and another takes its place.
func TestKeyThatNobodyHasIsGivenUp(t *testing.T) {
	h, admin := found(t, Config{})
	_, err := admin.Create(t.Context(), secret("s", "x"), client.WriteOptions{})
	check(t, err)
	s := registry.Sealing{Phase: registry.SealingSpread, Active: h.sealer.IDs()[0], Next: "0123456789abcdef", From: "h7"}
	check(t, h.writeSealing(within(t, 20*time.Second), registry.Actor{Name: "hub:h7"}, s, 0))
	_, err = admin.Create(t.Context(), secret("s2", "x"), client.WriteOptions{})
	check(t, err)
	if s := sealingOf(t, h); len(s.Waiting) != 1 {
		t.Errorf("waiting: got %v, want this very member", s.Waiting)
	}
	if _, err := h.dropKeys(within(t, 20*time.Second), nil); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is not finished (spreading)") {
		t.Errorf("dropping old keys in the middle of a change: got %v, want a refusal that says so", err)
	}
	rotate(t, h, false)
	if s := sealingOf(t, h); s.Next != "0123456789abcdef" {
		t.Errorf("asked again: got %+v, want the same change to go on", s)
	}
	rotate(t, h, true)
	await(t, "another key seals", func() bool { return sealingOf(t, h).Phase == registry.SealingDone })
	onlyBy(t, h)
}

// However the record came to say that nothing needs the old key: a key that something needs is kept.
func TestAKeyThatSealsWhatStandsIsNotDropped(t *testing.T) {
	h, admin := found(t, Config{})
	_, err := admin.Create(t.Context(), secret("s", "x"), client.WriteOptions{})
	check(t, err)
	first := h.sealer.IDs()[0]
	key, err := registry.NewSealingKey()
	check(t, err)
	check(t, h.sealer.Add(key))
	s := registry.Sealing{Phase: registry.SealingDone, Active: registry.KeyIDOf(key), Old: []string{first}, Since: h.store.Compacted().String()}
	check(t, h.writeSealing(within(t, 20*time.Second), registry.Actor{Name: "hub:h1"}, s, 0))
	_, err = h.dropKeys(within(t, 20*time.Second), nil)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "values that stand are sealed by the key "+first) || !h.sealer.Has(first) {
		t.Errorf("got %v and keys %v, want a refusal that names %s, and the key kept", err, h.sealer.IDs(), first)
	}
}

// TestAKeyWhoseRecordMayStandIsKept: whoever asked for it goes away in the middle, when the record is on its way already.
func TestAKeyWhoseRecordMayStandIsKept(t *testing.T) {
	h, _ := found(t, Config{})
	gone := 0
	for i := range 40 {
		ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*75*time.Microsecond)
		_, err := h.startRotation(ctx, url.Values{"restart": {"true"}})
		leave()
		if err != nil {
			gone++
		}
		check(t, h.replica.Barrier(within(t, 20*time.Second)))
		s, _, err := registry.ReadSealing(t.Context(), h.replica)
		check(t, err)
		for _, id := range []string{s.Next, s.Active} {
			if id != "" && !h.sealer.Has(id) {
				t.Fatalf("after %d: got the key %s on record and not on the only member", i, id)
			}
		}
	}
	if gone == 0 {
		t.Error("got every answer in time: nothing was tried")
	}
}
