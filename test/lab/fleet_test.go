package lab

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A machine that lost its power finds every member stopped, and none of them serves alone.
func TestMembersThatAllStoppedAreStartedTogether(t *testing.T) {
	dir := t.TempDir()
	// The stand-in for a member leaves a mark and goes on; the CLI's answers once all three left theirs.
	program := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("drover-hub", `touch "$2/runs"; exec sleep 60`)
	program("drover", `test -e `+dir+`/hub/h1/runs && test -e `+dir+`/hub/h2/runs && test -e `+dir+`/hub/h3/runs || exit 7; echo config`)
	f, err := Load(Plan{Dir: dir, Bin: dir, Members: []Member{{Name: "h1"}, {Name: "h2"}, {Name: "h3"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range f.Members {
		if err := os.MkdirAll(f.Path("hub", m.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"member.json", "admin.kubeconfig"} {
			if err := os.WriteFile(f.Path("hub", m.Name, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	defer func() {
		for _, p := range f.Procs {
			if err := p.Stop(context.Background(), time.Second); err != nil {
				t.Errorf("stop %s: %v", p.Name, err)
			}
		}
	}()
	if err := f.StartHub(ctx); err != nil {
		t.Errorf("got %v, want all members started before one is waited for", err)
	}
}
