package ctrd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// Nothing below an allowed path leads out of it, whatever links lie there.
func TestAHostPathDoesNotLeadOutOfWhatThePoolAllows(t *testing.T) {
	d := newDevice(t)
	image := d.pull(0)
	dir := t.TempDir()
	allowed, outside := filepath.Join(dir, "cameras"), filepath.Join(dir, "secret")
	for _, p := range []string{filepath.Join(allowed, "a"), outside, filepath.Join(dir, "cameras2")} {
		d.ok(os.MkdirAll(p, 0o755))
	}
	d.ok(os.Symlink(outside, filepath.Join(allowed, "abs")))
	d.ok(os.Symlink("../secret", filepath.Join(allowed, "rel")))
	d.ok(os.Symlink("a", filepath.Join(allowed, "within")))
	for name, tc := range map[string]struct {
		path, kind, want string
	}{
		"at the root":              {allowed, "Directory", ""},
		"below":                    {allowed + "/a", "", ""},
		"made":                     {allowed + "/b/c", "DirectoryOrCreate", ""},
		"file made":                {allowed + "/f", "FileOrCreate", ""},
		"a link that stays within": {allowed + "/within", "Directory", ""},
		"an absolute link":         {allowed + "/abs", "", "may not lead out of"},
		"a relative link":          {allowed + "/rel", "Directory", "may not lead out of"},
		"made behind a link":       {allowed + "/rel/x", "DirectoryOrCreate", "may not lead out of"},
		"a name that begins alike": {dir + "/cameras2", "", "does not allow host path"},
		"stepping back":            {allowed + "/../secret", "", "does not allow host path"},
		"elsewhere":                {"/etc", "Directory", "does not allow host path /etc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("host", image)
			s.C.Mounts = []wire.Mount{{Volume: "h", Path: "/host"}}
			s.Volumes = []wire.Volume{{Name: "h", HostPath: tc.path, HostType: tc.kind}}
			s.Grant = grant.Grant{Pool: "north", HostPaths: []string{allowed}}
			defer func() { d.ok(d.Remove(d.ctx, s.ID)) }()
			err := d.Create(d.ctx, s)
			if err == nil {
				err = d.Start(d.ctx, s, run(1), nil)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "north")) {
				t.Errorf("got %v, want %q and the pool's name", err, tc.want)
			}
		})
	}
	if es, err := os.ReadDir(outside); err != nil || len(es) > 0 {
		t.Errorf("outside lies %v, %v; want nothing made there", es, err)
	}
}

// What was a folder at the creation and is a link at the start leads nowhere either.
func TestALinkPutInAfterTheCreationIsFoundAtTheStart(t *testing.T) {
	d := newDevice(t)
	dir := t.TempDir()
	allowed := filepath.Join(dir, "cameras")
	d.ok(os.MkdirAll(filepath.Join(allowed, "a"), 0o755))
	s := spec("swap", d.pull(0))
	s.C.Mounts = []wire.Mount{{Volume: "h", Path: "/host"}}
	s.Volumes = []wire.Volume{{Name: "h", HostPath: allowed + "/a"}}
	s.Grant = grant.Grant{Pool: "north", HostPaths: []string{allowed}}
	d.ok(d.Create(d.ctx, s))
	d.ok(os.Remove(filepath.Join(allowed, "a")))
	d.ok(os.Symlink("/etc", filepath.Join(allowed, "a")))
	if err := d.Start(d.ctx, s, run(1), nil); err == nil || !strings.Contains(err.Error(), "may not lead out of") {
		t.Errorf("got %v, want the link refused", err)
	}
	d.ok(d.Remove(d.ctx, s.ID))
}

func TestDeviceFilesAndPrivilegeReachTheContainer(t *testing.T) {
	d := newDevice(t)
	image := d.pull(0)
	for name, tc := range map[string]struct {
		devices    []wire.DeviceFile
		privileged bool
		open, want string
	}{
		"a device file":            {[]wire.DeviceFile{{Path: "/dev/fuse", Permissions: "rw"}}, false, "/dev/fuse", "opened"},
		"one that was not given":   {nil, false, "/dev/fuse", "no such file"},
		"not what was asked for":   {[]wire.DeviceFile{{Path: "/dev/fuse", Permissions: "r"}}, false, "/dev/fuse", "operation not permitted"},
		"everything to privileged": {nil, true, "/dev/fuse", "opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("dev", image, "open", tc.open)
			s.C.Devices, s.C.Privileged = tc.devices, tc.privileged
			s.Grant = grant.Grant{Pool: "north", Devices: []string{"/dev/fuse"}, Privileged: true}
			d.ok(d.Create(d.ctx, s))
			d.ok(d.Start(d.ctx, s, run(1), nil))
			d.logged(tc.want)
			d.ok(d.Stop(d.ctx, s.ID, time.Second))
			d.ok(d.Remove(d.ctx, s.ID))
			d.ok(d.Forget(d.ctx, s.UID))
		})
	}
	link := filepath.Join("/dev", "drover-test-link")
	_ = os.Remove(link)
	d.ok(os.Symlink("/dev/null", link))
	defer func() { _ = os.Remove(link) }()
	s := spec("link", image)
	s.C.Devices = []wire.DeviceFile{{Path: link, Permissions: "rw"}}
	s.Grant = grant.Grant{Pool: "north", Devices: []string{link}}
	d.ok(d.Create(d.ctx, s))
	if err := d.Start(d.ctx, s, run(1), nil); err == nil || !strings.Contains(err.Error(), "leads to /dev/null: pool north does not allow device file /dev/null") {
		t.Errorf("a link to what the pool does not allow: got %v", err)
	}
	d.ok(d.Remove(d.ctx, s.ID))
}
