package hub

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/metrics"
	"github.com/drover-fleet/drover/store"
)

// rot changes a byte of a value in a member's state file, as a card does that wears out.
func rot(t *testing.T, path, value string) {
	t.Helper()
	file, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Contains(file, []byte(value)) {
		t.Fatalf("%s does not hold %q", path, value)
	}
	check(t, os.WriteFile(path, bytes.ReplaceAll(file, []byte(value), []byte(strings.ToUpper(value))), 0o600))
}

// TestF39WhatTheDiskHasChangedIsFoundAndSeededAgain: members' hashes still agree, since they follow from what was applied.
func TestF39WhatTheDiskHasChangedIsFoundAndSeededAgain(t *testing.T) {
	h, admin := three(t)
	o := configMap("c")
	o.Data = map[string]string{"k": "as-it-was-written"}
	_, err := admin.Create(t.Context(), o, client.WriteOptions{})
	check(t, err)
	check(t, h[2].replica.Barrier(within(t, 20*time.Second)))
	check(t, h[2].store.Checkpoint())
	h[2].stop()
	rot(t, h[2].dir.path(fileState), "as-it-was-written")
	odd := run(t, Config{Dir: string(h[2].dir)})
	ctx := within(t, 60*time.Second)
	await(t, "it takes part", func() bool { return odd.node.Status().Fenced == "" && odd.node.Status().Leader != 0 })
	await(t, "the others answer it", func() bool { return odd.othersSuffice(ctx) })
	old := odd.node.Status().ID
	if damaged, err := odd.verifyOnce(ctx); err != nil || !damaged {
		t.Fatalf("got %v, %v, want that damage is found", damaged, err)
	}
	await(t, "it comes back under another id", func() bool { return odd.node.Status().ID != old && odd.node.Status().Fenced == "" })
	await(t, "it holds the value as it was written", func() bool {
		got, err := odd.store.Range(ctx, store.RangeRequest{Start: "configmaps/default/c"})
		return err == nil && len(got.KVs) == 1 && bytes.Contains(got.KVs[0].Value, []byte("as-it-was-written"))
	})
	if damaged, err := odd.verifyOnce(ctx); err != nil || damaged {
		t.Errorf("afterwards: got %v, %v, want a sound file", damaged, err)
	}
}

func TestDamageOfALoneMemberIsAnAlarm(t *testing.T) {
	h, admin := found(t, Config{})
	o := configMap("c")
	o.Data = map[string]string{"k": "as-it-was-written"}
	_, err := admin.Create(t.Context(), o, client.WriteOptions{})
	check(t, err)
	check(t, h.store.Checkpoint())
	h.stop()
	rot(t, h.dir.path(fileState), "as-it-was-written")
	h = run(t, Config{Dir: string(h.dir)})
	if damaged, err := h.verifyOnce(within(t, 20*time.Second)); err != nil || !damaged {
		t.Fatalf("got %v, %v, want that damage is found", damaged, err)
	}
	var c metrics.Condition
	h.findings.into(&c)
	if !c.Damaged {
		t.Error("no alarm stands")
	}
}
