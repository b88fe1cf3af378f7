package logfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func dir(t *testing.T, limit int64) (Dir, func(string)) {
	t.Helper()
	d := Dir{Root: t.TempDir(), Limit: limit}
	if err := d.Begin("u", "main"); err != nil {
		t.Fatal(err)
	}
	return d, func(s string) { // as the shim does
		t.Helper()
		f, err := os.OpenFile(d.Path("u", "main"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, d Dir, o Options) string {
	t.Helper()
	r, err := d.Open(context.Background(), "u", "main", o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(iotest.OneByteReader(r))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTailGivesTheLastLinesOverARotation(t *testing.T) {
	d, write := dir(t, 10)
	write("one\ntwo\nthree\n")
	if err := d.Rotate(); err != nil {
		t.Fatal(err)
	}
	write("four\nfive")
	for _, c := range []struct {
		tail int64
		want string
	}{{-1, "\nthree\nfour\nfive"}, {0, ""}, {1, "five"}, {2, "four\nfive"}, {3, "three\nfour\nfive"}, {99, "\nthree\nfour\nfive"}} {
		got := read(t, d, Options{Tail: c.tail})
		if c.tail == -1 || c.tail == 99 {
			if !strings.HasSuffix(got, "three\nfour\nfive") {
				t.Errorf("tail %d: got %q", c.tail, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("tail %d: got %q, want %q", c.tail, got, c.want)
		}
	}
}

func TestFilesOfOneContainerStayWithinTheQuota(t *testing.T) {
	d, write := dir(t, 1000)
	for i := range 50 {
		write(strings.Repeat(fmt.Sprint(i%10), 300) + "\n")
		if err := d.Rotate(); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if err := d.Begin("u", "main"); err != nil {
				t.Fatal(err)
			}
		}
	}
	var sum int64
	files, err := filepath.Glob(filepath.Join(d.Root, "u", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += st.Size()
	}
	if limit := int64(3*1000 + 301); sum > limit || len(files) > 3 {
		t.Errorf("%d bytes in %d files, want at most %d in 3", sum, len(files), limit)
	}
}

func TestTheRunBeforeIsReadAsPrevious(t *testing.T) {
	d, write := dir(t, 0)
	if _, err := d.Open(context.Background(), "u", "main", Options{Previous: true}); err == nil {
		t.Error("a first run has a previous log")
	}
	write("first\n")
	if err := d.Begin("u", "main"); err != nil {
		t.Fatal(err)
	}
	write("second\n")
	if got := read(t, d, Options{Tail: -1}); got != "second\n" {
		t.Errorf("current: got %q", got)
	}
	if got := read(t, d, Options{Tail: -1, Previous: true}); got != "first\n" {
		t.Errorf("previous: got %q", got)
	}
}

func TestFollowGoesOnOverRotationAndRestart(t *testing.T) {
	d, write := dir(t, 8)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	write("a\n")
	r, err := d.Open(ctx, "u", "main", Options{Tail: -1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	expect := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
			t.Fatalf("got %q, %v; want %q", b, err, want)
		}
	}
	expect("a\n")
	write("bbbbbbbbbb\n")
	expect("bbbbbbbbbb\n")
	if err := d.Rotate(); err != nil {
		t.Fatal(err)
	}
	write("c\n")
	expect("c\n")
	if err := d.Begin("u", "main"); err != nil {
		t.Fatal(err)
	}
	write("d\n")
	expect("d\n")
	cancel()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: got %d, %v; want 0, EOF", n, err)
	}
}

func TestForgetTakesNothingElse(t *testing.T) {
	d, write := dir(t, 0)
	write("x")
	for _, bad := range []string{"", ".", "..", "../u", "a/b"} {
		if err := d.Forget(bad); err == nil {
			t.Errorf("forgot %q", bad)
		}
	}
	if err := d.Forget("u"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(d.Root, "u")); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}
