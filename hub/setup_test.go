package hub

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

func TestInitCutShortAnywhereCanBeRepeated(t *testing.T) {
	whole := t.TempDir()
	check(t, Init(whole, identity(t, "h0")))
	files := []string{fileSealing, fileLog}
	for n := range len(files) + 1 {
		d := some(t, whole, files[:n]...)
		id := identity(t, "h1") // not even the name has to be the same
		if err := Init(d, id); err != nil {
			t.Errorf("init after one that ended with %v: %v", files[:n], err)
			continue
		}
		noLeftovers(t, d)
		h, err := Open(Config{Dir: d})
		if err != nil {
			t.Errorf("open after init was repeated with %v: %v", files[:n], err)
		}
		check(t, h.Close())
	}
	if err := Init(whole, identity(t, "h0")); err == nil || !strings.Contains(err.Error(), "start it without --init") {
		t.Errorf("init of a member: got %v, want what to do", err)
	}
}

func TestJoinCutShortAnywhereCanBeRepeatedWithItsToken(t *testing.T) {
	h, admin := found(t, Config{})
	token := h.token(admin, "second")
	id := identity(t, "h2")
	whole := t.TempDir()
	check(t, Join(within(t, 20*time.Second), whole, id, h.joining(token)))
	files := []string{fileKey, fileSealing, fileCA, fileCert, fileLog}
	for n := 1; n <= len(files); n++ {
		d := some(t, whole, files[:n]...)
		if err := Join(within(t, 20*time.Second), d, id, h.joining(token)); err != nil {
			t.Errorf("join after one that ended with %v: %v", files[:n], err)
			continue
		}
		noLeftovers(t, d)
	}
	if got := used(t, admin, "second"); got != 1 {
		t.Errorf("uses of the token: got %d, want 1", got)
	}
	if err := Join(within(t, 20*time.Second), t.TempDir(), id, h.joining(token)); !fault.Is(err, fault.Forbidden) {
		t.Errorf("join with another key by the used token: got %v, want forbidden", err)
	}
}

func TestUnfinishedInitAndJoinAreNotMixed(t *testing.T) {
	whole := t.TempDir()
	check(t, Init(whole, identity(t, "h1")))
	begun := some(t, whole, fileSealing)
	token, err := wire.NewToken(rand.Reader, []byte("some CA"), "t")
	check(t, err)
	err = Join(within(t, 20*time.Second), begun, identity(t, "h2"), Joining{Token: string(token.Reveal()), Server: "https://127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "choose an empty directory") {
		t.Errorf("join over an unfinished init: got %v, want what to do", err)
	}
	key := t.TempDir()
	_, err = dir(key).joinKey()
	check(t, err)
	if err := Init(key, identity(t, "h1")); err == nil || !strings.Contains(err.Error(), "choose an empty directory") {
		t.Errorf("init over an unfinished join: got %v, want what to do", err)
	}
}

func TestInitNeverTakesTheLogOfAMemberThatRan(t *testing.T) {
	h, _ := found(t, Config{})
	h.stop()
	d := some(t, h.cfg.Dir, fileSealing, fileLog)
	before, err := os.ReadFile(dir(d).path(fileLog))
	check(t, err)
	if err := Init(d, identity(t, "h1")); err == nil || !strings.Contains(err.Error(), "which has run") {
		t.Errorf("init over a log that ran: got %v, want a refusal", err)
	}
	if after, err := os.ReadFile(dir(d).path(fileLog)); err != nil || len(after) != len(before) {
		t.Errorf("the log is gone or has changed: %d bytes, want %d (%v)", len(after), len(before), err)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	d := t.TempDir()
	check(t, os.WriteFile(dir(d).path("photo.jpg"), nil, 0o600))
	if err := Init(d, identity(t, "h1")); err == nil || !strings.Contains(err.Error(), "photo.jpg") {
		t.Errorf("init in a foreign directory: got %v, want an error that names the file", err)
	}
	h, err := Open(Config{Dir: d})
	if err == nil || !strings.Contains(err.Error(), "--init founds") {
		t.Errorf("start in a foreign directory: got %v, want what to do", err)
	}
	check(t, h.Close())
	if entries, err := os.ReadDir(d); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v now, want the photo alone (%v)", entries, err)
	}
}

func TestTwoProcessesCannotShareADirectory(t *testing.T) {
	d := dir(t.TempDir())
	lock, err := d.lock(time.Millisecond)
	check(t, err)
	if _, err := d.lock(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), string(d)) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("second lock: got %v, want an error that names directory and process", err)
	}
	check(t, lock.Close())
	again, err := d.lock(time.Second)
	check(t, err)
	check(t, again.Close())
}

func TestTakenNameOrAddressTakesNoUseOfTheToken(t *testing.T) {
	h, admin := found(t, Config{})
	token := h.token(admin, "spare")
	path := t.TempDir()
	taken := identity(t, "h2")
	taken.Peer = h.id.Peer
	for _, id := range []Identity{identity(t, "h1"), taken} {
		if err := Join(within(t, 20*time.Second), path, id, h.joining(token)); !fault.Is(err, fault.AlreadyExists) {
			t.Errorf("join as %s at %s: got %v, want already exists", id.Name, id.Peer, err)
		}
	}
	if got := used(t, admin, "spare"); got != 0 {
		t.Errorf("uses of the token: got %d, want 0", got)
	}
	if err := Join(within(t, 20*time.Second), path, identity(t, "h2"), h.joining(token)); err != nil {
		t.Errorf("join under a free name in the same directory with the same token: %v", err)
	}
}

func TestTokenOfAnotherHubIsRefusedAtOnce(t *testing.T) {
	h, _ := found(t, Config{})
	other, admin := found(t, Config{})
	err := Join(within(t, 20*time.Second), t.TempDir(), identity(t, "h2"), h.joining(other.token(admin, "theirs")))
	if !fault.Is(err, fault.Forbidden) {
		t.Errorf("got %v, want forbidden without further attempts", err)
	}
}
