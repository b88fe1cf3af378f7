package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func saved(t *testing.T, dir string, payloads ...[]byte) {
	t.Helper()
	f := NewFile(dir, "x", 1<<20)
	if _, err := f.Load(); err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads {
		if err := f.Save(p); err != nil {
			t.Fatal(err)
		}
	}
}

func load(t *testing.T, dir string) Loaded {
	t.Helper()
	l, err := NewFile(dir, "x", 1<<20).Load()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// damages are what a power cut leaves (F03), applied to one file of n bytes.
func damages(n int) map[string]func(path string) error {
	out := map[string]func(string) error{
		"truncated": func(p string) error { return os.Truncate(p, 0) },
		"nul": func(p string) error {
			return os.WriteFile(p, make([]byte, n), 0o600)
		},
		"nul tail": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			clear(b[len(b)/2:])
			return os.WriteFile(p, b, 0o600)
		},
		"longer": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, append(b, 0), 0o600)
		},
		"flipped bit": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b[len(b)-1] ^= 1
			return os.WriteFile(p, b, 0o600)
		},
	}
	cuts := []int{1, 7, 8, 15, 16, 47, 48, 49, n - 1}
	for c := 512; c < n; c += 512 {
		cuts = append(cuts, c)
	}
	for _, c := range cuts {
		out[fmt.Sprintf("cut at %d", c)] = func(p string) error { return os.Truncate(p, int64(c)) }
	}
	return out
}

func TestABadFileFallsBackToThePreviousGoodCopy(t *testing.T) {
	old, now := bytes.Repeat([]byte("old "), 700), bytes.Repeat([]byte("new!"), 800)
	for name, damage := range damages(headerSize + len(now)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			saved(t, dir, old, now)
			if err := damage(filepath.Join(dir, "x")); err != nil {
				t.Fatal(err)
			}
			l := load(t, dir)
			if l.Origin != Previous || !bytes.Equal(l.Payload, old) {
				t.Fatalf("got %d bytes from %v, want the previous copy", len(l.Payload), l.Origin)
			}
			if len(l.Problems) != 1 {
				t.Fatalf("got problems %v, want one", l.Problems)
			}
			if _, err := os.Stat(filepath.Join(dir, "x.bad-0")); err != nil {
				t.Errorf("bad file was not set aside: %v", err)
			}
			// The next save must not push the good previous copy out with a bad current one.
			saved(t, dir, now)
			if l := load(t, dir); l.Origin != Current || !bytes.Equal(l.Payload, now) {
				t.Errorf("after the next save: got %v", l.Origin)
			}
		})
	}
}

func TestBothCopiesBadIsLostAndNotAnError(t *testing.T) {
	dir := t.TempDir()
	saved(t, dir, []byte("a"), []byte("b"))
	for _, n := range []string{"x", "x.prev"} {
		if err := os.Truncate(filepath.Join(dir, n), 3); err != nil {
			t.Fatal(err)
		}
	}
	if l := load(t, dir); !l.Lost() || l.Payload != nil {
		t.Fatalf("got origin %v payload %q, want lost", l.Origin, l.Payload)
	}
	if l := load(t, dir); l.Lost() || l.Origin != None {
		t.Fatalf("second load: got %v lost=%v, want nothing there and nothing lost", l.Origin, l.Lost())
	}
}

func TestALostRenameLeavesTheNewestCompleteCopy(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(dir string) error
		want    string
		origin  Origin
	}{
		{"only the temporary file", func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, "x.prev")), os.Rename(filepath.Join(d, "x"), filepath.Join(d, "x.tmp")))
		}, "new", Unplaced},
		{"between the two renames", func(d string) error {
			return os.Rename(filepath.Join(d, "x"), filepath.Join(d, "x.tmp"))
		}, "new", Unplaced},
		{"second rename lost and the temporary file torn", func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, "x"), filepath.Join(d, "x.tmp")), os.Truncate(filepath.Join(d, "x.tmp"), 20))
		}, "old", Previous},
		{"directory entry lost", func(d string) error { return os.Remove(filepath.Join(d, "x")) }, "old", Previous},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			saved(t, dir, []byte("old"), []byte("new"))
			if err := c.prepare(dir); err != nil {
				t.Fatal(err)
			}
			l := load(t, dir)
			if string(l.Payload) != c.want || l.Origin != c.origin {
				t.Fatalf("got %q from %v, want %q from %v", l.Payload, l.Origin, c.want, c.origin)
			}
			saved(t, dir, []byte("next"))
			if l := load(t, dir); string(l.Payload) != "next" {
				t.Errorf("after the next save: got %q", l.Payload)
			}
		})
	}
}

func TestATornTemporaryFileBesideAGoodOneIsIgnored(t *testing.T) {
	dir := t.TempDir()
	saved(t, dir, []byte("old"), []byte("now"))
	if err := os.WriteFile(filepath.Join(dir, "x.tmp"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := load(t, dir); string(l.Payload) != "now" || len(l.Problems) != 0 {
		t.Fatalf("got %q, problems %v; want now, none", l.Payload, l.Problems)
	}
}

func TestBadFilesSetAsideAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range 3 * keptBad {
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		load(t, dir)
	}
	bad, err := filepath.Glob(filepath.Join(dir, "x.bad-*"))
	if err != nil || len(bad) != keptBad {
		t.Fatalf("got %d files set aside (%v), want %d", len(bad), err, keptBad)
	}
}

func TestEqualContentIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	saved(t, dir, []byte("a"))
	before, err := os.Stat(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	saved(t, dir, []byte("a"), []byte("a"))
	after, err := os.Stat(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the file was written again for equal content")
	}
	if _, err := os.Stat(filepath.Join(dir, "x.prev")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a previous copy appeared for equal content: %v", err)
	}
}

func TestTooLargeAPayloadLeavesTheCurrentCopy(t *testing.T) {
	dir := t.TempDir()
	f := NewFile(dir, "x", 4)
	if err := f.Save([]byte("abcd")); err != nil {
		t.Fatal(err)
	}
	if err := f.Save([]byte("abcde")); err == nil {
		t.Fatal("five bytes were saved under a limit of four")
	}
	if l := load(t, dir); string(l.Payload) != "abcd" {
		t.Errorf("got %q, want abcd", l.Payload)
	}
}

// A complete temporary file may be the only copy of the newest state: a save that fails must not cost it.
func TestAFailedSaveKeepsACopyWhoseRenameWasLost(t *testing.T) {
	dir := t.TempDir()
	saved(t, dir, []byte("old"), []byte("new"))
	if err := os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "x.tmp")); err != nil {
		t.Fatal(err)
	}
	f := NewFile(dir, "x", 1<<20)
	if _, err := f.Load(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.tmp"), 0o700); err != nil { // what a full disk does: no file is made
		t.Fatalf("the copy was left where the next save overwrites it: %v", err)
	}
	if err := f.Save([]byte("next")); err == nil {
		t.Fatal("saved where nothing can be written")
	}
	if l := load(t, dir); string(l.Payload) != "new" {
		t.Errorf("got %q, want new", l.Payload)
	}
}
