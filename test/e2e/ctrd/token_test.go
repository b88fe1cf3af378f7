package ctrd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

func heldToken(uid string) workload.HeldToken {
	return workload.HeldToken{TokenID: workload.TokenID{UID: uid, Volume: "hub", Path: "sub/token"}, BootID: "b1", Renew: time.Hour, Until: 2 * time.Hour,
		Terms: workload.TokenTerms{Account: "robot", Audience: "drover", LifeSecs: 3600, Mode: 0o640}}
}

// A token lies in memory, is seen by the container read-only and as it is renewed, outlives the agent, and goes with the assignment.
func TestATokenIsReadFromMemoryAndRenewedUnderTheContainer(t *testing.T) {
	d := newDevice(t)
	s := spec("tok", d.pull(0), "follow", "/hub/sub/token")
	s.C.Mounts = []wire.Mount{{Volume: "hub", Path: "/hub"}}
	s.Volumes = []wire.Volume{{Name: "hub", FileMode: 0o640, Tokens: []wire.TokenFile{{Path: "sub/token", Audience: "drover", LifeSecs: 3600}}}}
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil)) // without its token
	h := heldToken("tok")
	d.ok(d.PutToken(d.ctx, h, []byte("first")))
	d.logged("read first")
	d.connect()
	h.Renew, h.Until = 2*time.Hour, 3*time.Hour
	d.ok(d.PutToken(d.ctx, h, []byte("second")))
	d.logged("read second")

	got, err := d.TokenFiles(d.ctx)
	d.ok(err)
	if !slices.Equal(got, []workload.HeldToken{h}) {
		t.Errorf("the next agent finds %+v, want %+v", got, h)
	}
	file := d.findToken()
	st, err := os.Stat(file)
	d.ok(err)
	var fs unix.Statfs_t
	d.ok(unix.Statfs(file, &fs))
	if kind := int64(fs.Type); st.Mode() != 0o640 || kind != unix.TMPFS_MAGIC && kind != unix.RAMFS_MAGIC { //nolint:unconvert // 32 bits wide on 32-bit boards
		t.Errorf("mode %o on file system %#x, want 640 in memory", st.Mode(), kind)
	}
	for _, command := range [][]string{{"/app", "write", "/hub/sub/token", "x"}, {"/app", "write", "/hub/other", "x"}} {
		if code, err := d.Exec(d.ctx, s.ID, command, 10*time.Second); err != nil || code == 0 {
			t.Errorf("%q: code %d, %v; want it refused: containers only read", command, code, err)
		}
	}

	d.ok(d.Stop(d.ctx, s.ID, 0))
	d.ok(d.Remove(d.ctx, s.ID))
	d.ok(d.Forget(d.ctx, "tok"))
	d.ok(d.Forget(d.ctx, "tok"))
	if got := d.findToken(); got != "" {
		t.Errorf("%s is left after the assignment", got)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	d.ok(err)
	if strings.Contains(string(mounts), d.dir) {
		t.Error("its memory is still mounted")
	}
}

// findToken is the file on the device; "" when there is none.
func (d *device) findToken() string {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(d.dir, "run", "*", "tok", "hub", "files", "sub", "token"))
	d.ok(err)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// After a reboot the memory is gone: what starts finds an empty volume, and a file comes to it.
func TestAfterARebootAVolumeWithTokensIsMadeAnew(t *testing.T) {
	d := newDevice(t)
	s := spec("tok", d.pull(0), "follow", "/hub/sub/token")
	s.C.Mounts = []wire.Mount{{Volume: "hub", Path: "/hub", ReadOnly: true}}
	s.Volumes = []wire.Volume{{Name: "hub", Tokens: []wire.TokenFile{{Path: "sub/token", Audience: "drover", LifeSecs: 3600}}}}
	d.ok(d.Create(d.ctx, s))
	d.ok(d.PutToken(d.ctx, heldToken("tok"), []byte("first")))
	mount := filepath.Join(d.dir, "run", "drover-"+d.name, "tok", "hub")
	d.ok(unix.Unmount(mount, 0))
	if got, err := d.TokenFiles(d.ctx); err != nil || len(got) > 0 {
		t.Errorf("got %+v, %v; want none", got, err)
	}
	d.ok(os.RemoveAll(filepath.Join(d.dir, "run")))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	d.ok(d.PutToken(d.ctx, heldToken("tok"), []byte("again")))
	d.logged("read again")
	d.ok(d.DropToken(d.ctx, heldToken("tok").TokenID))
	d.ok(d.DropToken(d.ctx, heldToken("tok").TokenID))
	if _, err := os.Stat(mount); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want the memory gone with its last file", mount, err)
	}
}
