package backup

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func header() Header {
	return Header{
		ClusterID: "C", Epoch: 2, EpochID: "e", Revision: 2<<40 + 7, Index: 12, Term: 3, Member: "h1", Version: "0.1.0",
		Members: []Member{{Name: "h1", API: "10.0.0.1:7443", Peer: "10.0.0.1:7444"}}, Time: time.Unix(1_800_000_000, 0).UTC(),
	}
}

func written(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, header(), bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func bodyOf(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestBackupGivesBackWhatWasWritten(t *testing.T) {
	for _, n := range []int{0, 1, maxChunk - 1, maxChunk, maxChunk + 1, 3*maxChunk + 5} {
		body := bodyOf(n)
		r, err := NewReader(bytes.NewReader(written(t, body)))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: got %d bytes and %v, want them all", n, len(got), err)
		}
		if d := cmp.Diff(header(), r.Header); d != "" {
			t.Errorf("header: got +, want -:\n%s", d)
		}
	}
}

func TestDamageAnywhereInABackupIsFound(t *testing.T) {
	whole := written(t, bodyOf(1000))
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x10
		if _, err := check(bytes.NewReader(damaged)); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: got %v, want %v", i, err, ErrDamaged)
		}
		if _, err := check(bytes.NewReader(whole[:i])); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut after byte %d: got %v, want %v", i, err, ErrDamaged)
		}
	}
	if _, err := check(bytes.NewReader(append(bytes.Clone(whole), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: got %v, want %v", err, ErrDamaged)
	}
}

func TestSavedFileIsWholeOrNotThereAndReplacesNone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hub.backup")
	whole := written(t, bodyOf(100_000))
	if _, err := Save(path, bytes.NewReader(whole[:50_000])); !errors.Is(err, ErrDamaged) {
		t.Errorf("a stream that was cut: got %v, want %v", err, ErrDamaged)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("after a failed save the folder holds %v (%v), want nothing", entries, err)
	}
	info, err := Save(path, bytes.NewReader(whole))
	if err != nil || info.Bytes != 100_000 {
		t.Fatalf("save: got %d bytes and %v, want 100000", info.Bytes, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode: got %v (%v), want 0600", st.Mode(), err)
	}
	if _, err := Save(path, bytes.NewReader(whole)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("save over a file: got %v, want %v", err, fs.ErrExist)
	}
	if got, err := Check(path); err != nil || got.SHA256 != info.SHA256 {
		t.Errorf("check: got %x and %v, want %x", got.SHA256, err, info.SHA256)
	}
}

// full is a disk without room after some bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

func TestAFullDiskIsNotADamagedBackup(t *testing.T) {
	to := &full{left: 30_000}
	if _, err := copyTo(to, bytes.NewReader(written(t, bodyOf(100_000)))); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want %v alone", err, syscall.ENOSPC)
	}
}
