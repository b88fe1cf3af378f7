package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

func TestF32SecondProcessIsToldWhoHoldsTheDirectory(t *testing.T) {
	h, _ := found(t, Config{})
	began := time.Now()
	second, err := Open(Config{Dir: h.cfg.Dir})
	check(t, second.Close())
	took := time.Since(began)
	if !errors.Is(err, ErrInUse) || ExitCode(err) != ExitInUse {
		t.Errorf("a second member: got %v and exit code %d, want %v and %d", err, ExitCode(err), ErrInUse, ExitInUse)
	}
	for _, want := range []string{h.cfg.Dir, fmt.Sprintf("process %d (", os.Getpid())} {
		if err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("message: got %q, want %q in it", err, want)
		}
	}
	if took < lockWait/2 || took > lockWait+5*time.Second {
		t.Errorf("it waited %s, want about %s: a service that restarts overlaps a little, and nobody waits for ever", took, lockWait)
	}
	if _, err := Examine(t.Context(), h.cfg.Dir); !errors.Is(err, ErrInUse) {
		t.Errorf("an offline command: got %v, want %v", err, ErrInUse)
	}
}

func TestF32RestartThatOverlapsIsWaitedFor(t *testing.T) {
	d := dir(t.TempDir())
	first, err := d.lock(time.Second)
	check(t, err)
	time.AfterFunc(300*time.Millisecond, func() { _ = first.Close() })
	second, err := d.lock(lockWait)
	if err != nil {
		t.Fatalf("a process that ends 300 ms later: got %v, want to be waited for", err)
	}
	check(t, second.Close())
}

func TestF34WrongDirectoryIsNamedAsWhatItIs(t *testing.T) {
	foreign, half, cut := t.TempDir(), t.TempDir(), t.TempDir()
	check(t, os.WriteFile(dir(foreign).path("photo.jpg"), nil, 0o600))
	check(t, os.WriteFile(dir(half).path(fileLog), nil, 0o600))
	check(t, os.WriteFile(dir(cut).path(fileRestoring), nil, 0o600))
	for path, want := range map[string]string{
		dir(foreign).path("nowhere"):   "does not exist: is its disk mounted?",
		t.TempDir():                    "is empty, so it belongs to no hub member: is its disk mounted?",
		foreign:                        "it holds photo.jpg",
		dir(foreign).path("photo.jpg"): "is a file",
		half:                           "it holds raft.db but no member.json",
		cut:                            "was cut off: repeat it",
	} {
		h, err := Open(Config{Dir: path})
		check(t, h.Close())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || ExitCode(err) != ExitWrongDir {
			t.Errorf("start in %s: got %v and exit code %d, want %q and %d", path, err, ExitCode(err), want, ExitWrongDir)
		}
	}
	if err := Init(dir(foreign).path("photo.jpg"), identity(t, "h1")); ExitCode(err) != ExitWrongDir {
		t.Errorf("a hub founded in a file: got %v and exit code %d, want %d", err, ExitCode(err), ExitWrongDir)
	}
}

// call dials until it is told to stop, as whoever misses a member does.
func call(t *testing.T, addr, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			d := &tls.Dialer{Config: &tls.Config{ServerName: name, MinVersion: tls.VersionTLS13}}
			if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
				_ = conn.Close()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func TestF34NoHubIsFoundedWhereOneIsMissed(t *testing.T) {
	for name, missed := range map[string]func(Identity) (addr, server string){
		"by a member":    func(id Identity) (string, string) { return id.Peer, id.Name },
		"by a device":    func(id Identity) (string, string) { return id.API, wire.HubServerName },
		"not by kubectl": func(id Identity) (string, string) { return id.API, "kubernetes" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := identity(t, "h1")
			addr, server := missed(id)
			call(t, addr, server)
			path := t.TempDir()
			err := InitUnlessMissed(t.Context(), path, id, "", "")
			if name == "not by kubectl" {
				check(t, err)
				return
			}
			if !errors.Is(err, ErrHubExists) || ExitCode(err) != ExitHubExists || !strings.Contains(err.Error(), "--force-new") {
				t.Errorf("got %v and exit code %d, want %v, what to do and %d", err, ExitCode(err), ErrHubExists, ExitHubExists)
			}
			if entries, err := os.ReadDir(path); err != nil || len(entries) != 0 {
				t.Errorf("the directory holds %v (%v), want nothing", entries, err)
			}
			check(t, Init(path, id)) // by force
		})
	}
}

func TestExitCodesTellWhatToDo(t *testing.T) {
	full := fmt.Errorf("write raft.db: %w", &os.PathError{Op: "write", Path: "raft.db", Err: syscall.ENOSPC})
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), fault.ExitError},
		{full, ExitDiskFull},
		{fault.Unreachable.Errorf("x"), fault.ExitNoHub},
		{fmt.Errorf("x: %w", ErrHistoryOver), ExitHistoryOver},
	} {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
	if Advice(full) == "" {
		t.Error("a full disk: got no advice")
	}
}

func TestDoctorFindsWhatIsWrongInADirectory(t *testing.T) {
	h, _ := found(t, Config{})
	h.stop()
	for _, tt := range []struct {
		name  string
		spoil func(d dir) error
		want  string // in a finding of trouble; "" is none
	}{
		{"sound", func(dir) error { return nil }, ""},
		{"no sealing key", func(d dir) error { return os.Remove(d.path(fileSealing)) }, "the sealing key cannot be read"},
		{"raft.db is no log", func(d dir) error { return os.WriteFile(d.path(fileLog), make([]byte, 8192), 0o600) }, "raft.db cannot be read"},
		{"state is no state", func(d dir) error { return os.WriteFile(d.path(fileState), make([]byte, 8192), 0o600) }, "the state cannot be read"},
		{"pages of raft.db are gone", func(d dir) error { return zeroPages(d.path(fileLog)) }, "raft.db cannot be read"},
		{"pages of the state are gone", func(d dir) error { return zeroPages(d.path(fileState)) }, "the state cannot be read"},
		{"raft.db is cut off", func(d dir) error { return os.Truncate(d.path(fileLog), 3*4096) }, "raft.db cannot be read"},
		{"the state is cut off", func(d dir) error { return os.Truncate(d.path(fileState), 3*4096) }, "the state cannot be read"},
		{"another member's log", func(d dir) error {
			id, err := d.loadIdentity()
			id.Name = "other"
			return errors.Join(err, d.saveIdentity(id))
		}, `raft.db belongs to member "h1", member.json to "other"`},
		{"another hub's CA", func(d dir) error {
			return os.WriteFile(d.path(fileCA), foreignCA(t), 0o600)
		}, "was not issued by the CA"},
		{"a key without an end", func(d dir) error {
			return errors.Join(os.Remove(d.path(fileKey)), os.Symlink("/dev/zero", d.path(fileKey)))
		}, "no regular file"},
		{"a certificate of a GiB", func(d dir) error { return os.Truncate(d.path(fileCert), 1<<30) }, "is larger than"},
		{"no certificate", func(d dir) error { return os.WriteFile(d.path(fileCert), nil, 0o600) }, "certificate cannot be read"},
	} {
		d := dir(t.TempDir())
		check(t, os.CopyFS(string(d), os.DirFS(h.cfg.Dir)))
		check(t, tt.spoil(d))
		findings, err := Examine(t.Context(), string(d))
		check(t, err)
		var troubles []string
		for _, f := range findings {
			if f.Level == FindingBad {
				troubles = append(troubles, f.What)
				if f.Do == "" {
					t.Errorf("%s: %q does not say what to do", tt.name, f.What)
				}
			}
		}
		if got := strings.Join(troubles, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got trouble %q, want %q", tt.name, got, tt.want)
		}
	}
}

// zeroPages makes all pages zero but the two roots.
func zeroPages(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	clear(b[2*4096:])
	return os.WriteFile(path, b, 0o600)
}

// TestDamagedFilesAreRefusedAsSurvivors: bbolt would end the process from a goroutine of its own.
func TestDamagedFilesAreRefusedAsSurvivors(t *testing.T) {
	h, _ := found(t, Config{})
	h.stop()
	for _, file := range []string{fileLog, fileState} {
		d := dir(t.TempDir())
		check(t, os.CopyFS(string(d), os.DirFS(h.cfg.Dir)))
		check(t, zeroPages(d.path(file)))
		if _, err := ResetFromSurvivor(t.Context(), string(d), ResetOptions{}); err == nil || !strings.Contains(err.Error(), "cannot be the survivor") {
			t.Errorf("%s without its pages: got %v, want that it cannot be the survivor", file, err)
		}
	}
}

// foreignCA is the CA of another hub.
func foreignCA(t *testing.T) []byte {
	t.Helper()
	h, _ := found(t, Config{})
	h.stop()
	b, err := os.ReadFile(h.dir.path(fileCA))
	check(t, err)
	return b
}

func TestUselessMemberFileIsTheWrongDirectory(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"half":    func(path string) error { return os.WriteFile(path, []byte(`{"name":"h`), 0o600) },
		"no name": func(path string) error { return os.WriteFile(path, []byte(`{}`), 0o600) },
	} {
		d := dir(t.TempDir())
		check(t, spoil(d.path(fileMember)))
		if _, err := Open(Config{Dir: string(d)}); ExitCode(err) != ExitWrongDir || !strings.Contains(err.Error(), fileMember) {
			t.Errorf("%s: got %v (exit code %d), want one that names %s (%d)", name, err, ExitCode(err), fileMember, ExitWrongDir)
		}
	}
}
