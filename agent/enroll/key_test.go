package enroll

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestTheKeyIsMadeOnceAndSurvivesDamageToEitherCopy(t *testing.T) {
	damage := map[string]func(t *testing.T, path string){
		"missing":   func(t *testing.T, p string) { check(t, os.Remove(p)) },
		"empty":     func(t *testing.T, p string) { check(t, os.Truncate(p, 0)) },
		"cut":       func(t *testing.T, p string) { check(t, os.Truncate(p, 100)) },
		"zeroes":    func(t *testing.T, p string) { check(t, os.WriteFile(p, make([]byte, 241), 0o600)) },
		"untouched": func(*testing.T, string) {},
	}
	for name, harm := range damage {
		for _, file := range []string{keyFile, keyCopy} {
			t.Run(name+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				key, made, err := OpenKey(dir)
				check(t, err)
				if !made {
					t.Fatal("no key was made in an empty directory")
				}
				harm(t, filepath.Join(dir, file))
				for range 2 { // the first heals, the second finds it whole
					again, made, err := OpenKey(dir)
					check(t, err)
					if made || !again.Equal(key) {
						t.Fatalf("made %v, equal %v; want the same key", made, again.Equal(key))
					}
				}
				for _, f := range []string{keyFile, keyCopy} {
					st, err := os.Stat(filepath.Join(dir, f))
					check(t, err)
					if st.Mode().Perm() != 0o600 {
						t.Errorf("%s has mode %v, want 0600", f, st.Mode())
					}
				}
			})
		}
	}
}

func TestACutDuringTheFirstWriteLeavesNoHalfKey(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, keyFile+".tmp"), []byte("-----BEGIN"), 0o600))
	_, made, err := OpenKey(dir)
	check(t, err)
	if !made {
		t.Error("a temporary file counted as the key")
	}
}

func TestBothCopiesLostMakesANewKeyAndDropsTheOldIdentity(t *testing.T) {
	dir := t.TempDir()
	key, _, err := OpenKey(dir)
	check(t, err)
	for _, f := range []string{keyFile, keyCopy} {
		check(t, os.Truncate(filepath.Join(dir, f), 0))
	}
	again, made, err := OpenKey(dir)
	check(t, err)
	if !made || again.Equal(key) {
		t.Errorf("made %v; want a new key", made)
	}
	if _, err := os.Stat(filepath.Join(dir, keyFile+".bad")); err != nil {
		t.Errorf("the damaged file was not set aside: %v", err)
	}
}

func TestADamagedIdentityIsNoIdentityAndNoFailure(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("garbage"), 0o600))
	k, err := Open(dir, slog.New(slog.DiscardHandler))
	check(t, err)
	if _, ok := k.Identity(); ok {
		t.Error("an identity out of garbage")
	}
	if _, err := k.Certificate(); err == nil {
		t.Error("a certificate without an identity")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
