package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSealedOpensOnlyWhereItBelongs(t *testing.T) {
	s, err := CreateSealer(filepath.Join(t.TempDir(), "seal.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{"", "x", strings.Repeat("long", 1000)} {
		sealed, err := s.Seal([]byte(plain), "here")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Open(sealed, "here")
		if err != nil || string(got) != plain {
			t.Fatalf("open: got %q, %v; want %q", got, err, plain)
		}
		if _, err := s.Open(sealed, "there"); !errors.Is(err, ErrSealed) {
			t.Errorf("open in another place: got %v, want %v", err, ErrSealed)
		}
		for i := range min(len(sealed), 80) {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			if _, err := s.Open(bad, "here"); !errors.Is(err, ErrSealed) {
				t.Errorf("open with byte %d changed: got %v, want %v", i, err, ErrSealed)
			}
		}
		if _, err := s.Open(sealed[:len(sealed)-1], "here"); !errors.Is(err, ErrSealed) {
			t.Errorf("open a truncated value: got %v, want %v", err, ErrSealed)
		}
		again, err := s.Seal([]byte(plain), "here")
		if err != nil || bytes.Equal(again, sealed) {
			t.Errorf("sealed twice: got equal bytes (err %v), want different ones", err)
		}
	}
}

func TestSealKeyIsNeitherReplacedNorPrinted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "seal.key")
	s, err := CreateSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: got mode %v, %v; want 0600", info.Mode(), err)
	}
	if _, err := CreateSealer(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over an existing key: got %v, want %v", err, fs.ErrExist)
	}
	key := strings.TrimSpace(string(s.Export()))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if out := fmt.Sprintf(verb, s); strings.Contains(out, key) || strings.Contains(out, fmt.Sprintf("%x", s.keys[0])) {
			t.Errorf("%s prints the key", verb)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".seal-*")); err != nil || len(left) != 0 {
		t.Errorf("temporary files: got %v, %v; want none", left, err)
	}
}

func TestMembersShareTheSealKey(t *testing.T) {
	dir := t.TempDir()
	first, err := CreateSealer(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := InstallSealer(filepath.Join(dir, "b"), first.Export()); err != nil {
		t.Fatal(err)
	}
	second, err := OpenSealer(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal([]byte("x"), "c")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.Open(sealed, "c"); err != nil || string(got) != "x" {
		t.Errorf("open on another member: got %q, %v", got, err)
	}
	if !bytes.Equal(first.KeyedHash([]byte("x")), second.KeyedHash([]byte("x"))) {
		t.Errorf("keyed hashes of two members differ")
	}
	third, err := CreateSealer(filepath.Join(dir, "c"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := third.Open(sealed, "c"); !errors.Is(err, ErrSealed) {
		t.Errorf("open with another key: got %v, want %v", err, ErrSealed)
	}
}

func FuzzOpen(f *testing.F) {
	s, err := NewSealer(bytes.Repeat([]byte{7}, sealKeyBytes))
	if err != nil {
		f.Fatal(err)
	}
	good, err := s.Seal([]byte("x"), "c")
	if err != nil {
		f.Fatal(err)
	}
	// What is fuzzed is a change of a sealed value: the value itself is another one in every process.
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add(append(make([]byte, len(good)), 0))
	f.Fuzz(func(t *testing.T, change []byte) {
		changed := bytes.Clone(good)
		for i, c := range change {
			if i == len(changed) {
				changed = append(changed, change[i:]...)
				break
			}
			changed[i] ^= c
		}
		for _, b := range [][]byte{changed, change} {
			if _, err := s.Open(b, "c"); err == nil && !bytes.Equal(b, good) {
				t.Errorf("opened %x, which was never sealed", b)
			}
		}
	})
}
