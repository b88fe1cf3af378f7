package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// F12: logs give way before the disk is full, the least telling first, and what was written last stays.
func TestLogsGiveWayToADiskThatIsShort(t *testing.T) {
	d, write := dir(t, 10<<20)
	write(strings.Repeat("x", 300<<10) + "the end")
	for name, size := range map[string]int{"old.prev.log": 100 << 10, "main.log.1": 200 << 10, "small.log": 1000} {
		if err := os.WriteFile(filepath.Join(d.Root, "u", name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const all = 100 << 20
	used := func() (sum int64) {
		es, err := os.ReadDir(filepath.Join(d.Root, "u"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			st, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			sum += st.Size()
		}
		return sum
	}
	others := int64(0)
	d.Free = func(string) (int64, int64, error) { return all - others - used(), all, nil }
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(d.Root, "u", name))
		return err == nil
	}
	for _, c := range []struct {
		what         string
		others       int64
		rotated, old bool
		cut          bool
	}{
		{"there is room", 50 << 20, true, true, false},
		{"a little short", 95<<20 - 450<<10, false, true, false},
		{"shorter", 95<<20 - 350<<10, false, false, false},
		{"very short", 99 << 20, false, false, true},
	} {
		others = c.others
		if err := d.Rotate(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if exists("main.log.1") != c.rotated || exists("old.prev.log") != c.old {
			t.Errorf("%s: rotated part there %v, want %v; earlier run there %v, want %v", c.what, exists("main.log.1"), c.rotated,
				exists("old.prev.log"), c.old)
		}
		got := text(t, d)
		if cut := len(got) <= keptTail; cut != c.cut || !strings.HasSuffix(got, "the end") {
			t.Errorf("%s: %d bytes left that end in %q; want cut %v, and the end", c.what, len(got), got[max(len(got)-7, 0):], c.cut)
		}
		if !exists("small.log") {
			t.Errorf("%s: a log that is written to was removed", c.what)
		}
	}
	write("!")
	if got := text(t, d); !strings.HasSuffix(got, "the end!") {
		t.Errorf("appending after the cut: ends in %q", got[len(got)-8:])
	}
}

func text(t *testing.T, d Dir) string {
	t.Helper()
	b, err := os.ReadFile(d.Path("u", "main"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
