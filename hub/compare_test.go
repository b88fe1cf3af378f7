package hub

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
)

// TestF39MemberThatDivergedFindsOutAndIsSeededAgain: its copy goes on, as if it had applied something else once; the others tell it so,
// and their copies stay.
func TestF39MemberThatDivergedFindsOutAndIsSeededAgain(t *testing.T) {
	h1, admin := found(t, Config{})
	members := []*running{h1}
	for i := range 2 {
		d := t.TempDir()
		name := fmt.Sprintf("h%d", i+2)
		check(t, Join(within(t, 20*time.Second), d, identity(t, name), h1.joining(h1.token(admin, name))))
		members = append(members, run(t, Config{Dir: d}))
		await(t, name+" votes", func() bool {
			voters := 0
			for _, m := range h1.node.Members() {
				if !m.Learner {
					voters++
				}
			}
			return voters == i+2
		})
	}
	odd := members[2]
	odd.stop()
	damage(t, odd.dir.path(fileState))
	odd = run(t, Config{Dir: string(odd.dir)})
	members[2] = odd
	ctx := within(t, 60*time.Second)
	for i := range 130 { // past two indexes at which hashes are kept
		r, err := h1.replica.Propose(ctx, &store.Command{Actor: "hub:test", Ops: []store.Op{{Type: store.OpPut, Key: "~k", Value: fmt.Append(nil, i)}}})
		check(t, err)
		check(t, r.Err)
	}
	for _, m := range members {
		check(t, m.replica.Barrier(ctx))
	}
	old := odd.node.Status().ID
	for _, m := range members {
		d, found := m.compareOnce(ctx)
		if want := m == odd; !found || d.Mine != want {
			t.Errorf("%s: got %+v, %v, want a divergence that is its own: %v", m.id.Name, d, found, want)
		}
		var never time.Time
		check(t, m.judge(ctx, &never))
	}
	await(t, "the odd one comes back under another id", func() bool { return odd.node.Status().ID != old && odd.node.Status().Fenced == "" })
	await(t, "equal contents", func() bool {
		i1, s1 := h1.store.Hash()
		i3, s3 := odd.store.Hash()
		return i1 == i3 && s1 == s3
	})

	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // only the answer is looked at
	}}}
	defer stranger.CloseIdleConnections()
	resp, err := stranger.Get("https://" + h1.id.API + pathHashes)
	check(t, err)
	check(t, resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("hashes for a stranger: got %s, want forbidden", resp.Status)
	}
}

// damage makes the state file that of a member which applied something else.
func damage(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, NoFreelistSync: true})
	check(t, err)
	check(t, db.Update(func(tx *bolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		hash := append([]byte(nil), meta.Get([]byte("hash"))...)
		hash[0]++
		return meta.Put([]byte("hash"), hash)
	}))
	check(t, db.Close())
}

// F30: a full store is alive and says what is wrong; it is ready again by itself.
func TestF30FullStoreIsAliveAndNotReady(t *testing.T) {
	h, _ := found(t, Config{Growth: replica.Growth{Limits: store.Limits{Data: store.Quota{Max: 900_000, High: 800_000, Low: 700_000}}}})
	ctx := within(t, 30*time.Second)
	await(t, "limits", func() bool { return h.store.Usage().Limits.Data.Max == 900_000 })
	var full *store.QuotaError
	for i := 0; full == nil; i++ {
		r, err := h.replica.Propose(ctx, &store.Command{Actor: "hub:test", Ops: []store.Op{{Type: store.OpPut, Key: fmt.Sprint("~k/", i), Value: make([]byte, 50_000)}}})
		check(t, err)
		if r.Err != nil && !errors.As(r.Err, &full) {
			t.Fatal(r.Err)
		}
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // only the answer is looked at
	}}}
	defer web.CloseIdleConnections()
	status := func(path string) int {
		resp, err := web.Get("https://" + h.id.API + path)
		check(t, err)
		check(t, resp.Body.Close())
		return resp.StatusCode
	}
	if live, ready := status("/livez"), status("/readyz"); live != http.StatusOK || ready == http.StatusOK {
		t.Errorf("full: got /livez %d and /readyz %d, want alive and not ready", live, ready)
	}
	for i := range 15 {
		r, err := h.replica.Propose(ctx, &store.Command{Actor: "hub:test", Ops: []store.Op{{Type: store.OpDelete, Key: fmt.Sprint("~k/", i)}}})
		check(t, err)
		check(t, r.Err)
	}
	r, err := h.replica.Propose(ctx, &store.Command{Actor: "hub:test", Compact: h.store.Revision()})
	check(t, err)
	check(t, r.Err)
	if ready := status("/readyz"); ready != http.StatusOK {
		t.Errorf("freed: got /readyz %d, want ready", ready)
	}
}
