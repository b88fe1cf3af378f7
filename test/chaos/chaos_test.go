package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/lab"
)

// binary is the member that all tests run, built once.
var binary string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests need root: network namespaces and mounts")
	}
	dir, err := os.MkdirTemp("", "drc")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	binary = filepath.Join(dir, "drover-hub")
	if err := Build(ctx, "../..", binary); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// shortDir is a directory that stays when the test fails, for its logs and its history.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "drc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("DROVER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("replay the schedule with DROVER_SEED=%d", seed)
	return seed
}

// TestClientsAndWatchersOfAHubUnderFaultsSeeWhatTheyWerePromised lets each kind of fault come once.
func TestClientsAndWatchersOfAHubUnderFaultsSeeWhatTheyWerePromised(t *testing.T) {
	v, err := Run(t.Context(), Config{Dir: shortDir(t), Binary: binary, Seed: testSeed(t), Down: time.Second, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Print(t.Output()); err != nil {
		t.Fatal(err)
	}
	if !v.OK() {
		t.Error("a guarantee was broken: see above")
	}
	if v.Snapshots <= members-1 {
		t.Errorf("got %d snapshots given to members, want one more than the %d that joined: nobody came back after the log had gone on", v.Snapshots, members-1)
	}
	if v.Done < 500 || v.Revisions < 200 {
		t.Errorf("got %d operations and %d revisions, want enough to show something", v.Done, v.Revisions)
	}
}

// TestF29MemberOnAFullDiskSaysSoAndServesAgainOnceThereIsRoom: the others go on meanwhile, whoever led.
func TestF29MemberOnAFullDiskSaysSoAndServesAgainOnceThereIsRoom(t *testing.T) {
	h, err := newHouse(shortDir(t), binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := h.found(ctx); err != nil {
		t.Fatal(err)
	}
	u := newUser(0, h, newRecord(), 1)
	defer u.links.close()
	u.at = 1 // the first leads, most likely
	written := 0
	write := func() error {
		written++
		c := &store.Command{
			Actor: "hub:test", RequestID: strconv.Itoa(written), Writer: "test", Sequence: uint64(written), //nolint:gosec // small
			Ops: []store.Op{{Type: store.OpPut, Key: "k/" + strconv.Itoa(written), Value: make([]byte, 200_000)}},
		}
		return lab.Until(ctx, "a write is acknowledged", func() error {
			res, err := u.propose(ctx, c)
			return errors.Join(err, res.Err)
		})
	}
	m := h.members[0]
	m.excuse()
	m.disk.set(0, false, true)
	for ended := false; !ended; ended, _ = m.ended() {
		if err := write(); err != nil {
			t.Fatalf("write %d while h1 has no room: %v", written, err)
		}
	}
	if log := m.tail(20); !strings.Contains(log, "no space left on device") {
		t.Errorf("the end of the log of h1 does not say why:\n%s", log)
	}
	m.disk.heal()
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	if err := lab.Until(ctx, "h1 serves again", func() error { return h.serves(ctx, m) }); err != nil {
		t.Fatalf("%v\n%s", err, m.tail(20))
	}
	u.links.drop(0)
	u.at = 0
	res, _, err := u.ask(ctx, store.RangeRequest{Start: "k/", End: store.PrefixEnd("k/"), Limit: 1}, false)
	if err != nil || res.Count != written {
		t.Errorf("on h1 afterwards: got %+v, %v; want the count of all %d acknowledged writes", res, err, written)
	}
}
