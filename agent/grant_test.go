package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

func withPath(path string) func(*wire.Assignment) {
	return func(a *wire.Assignment) {
		a.Volumes = []wire.Volume{{Name: "v", HostPath: path}}
		a.Containers[0].Mounts = []wire.Mount{{Volume: "v", Path: "/v"}}
	}
}

func withPrivilege(a *wire.Assignment) { a.Containers[0].Privileged = true }

// A hub that is older, or mistaken, puts into a bundle what the device's pool does not allow.
func TestWhatThePoolDoesNotAllowIsNotStartedThoughTheBundleHasIt(t *testing.T) {
	north := &grant.Grant{Pool: "north", Namespaces: []string{"default"}, HostPaths: []string{"/srv/cameras"}, HostPorts: []int32{80}}
	for name, tc := range map[string]struct {
		grant  *grant.Grant
		change func(*wire.Assignment)
		want   string // "" = it runs
	}{
		"privileged":          {north, withPrivilege, "pool north does not allow privileged containers"},
		"privileged, no pool": {nil, withPrivilege, "no pool of the device allows privileged containers"},
		"privileged, allowed": {&grant.Grant{Pool: "p", Namespaces: []string{"default"}, Privileged: true}, withPrivilege, ""},
		"host path":           {north, withPath("/etc"), "pool north does not allow host path /etc (it allows /srv/cameras)"},
		"host path, allowed":  {north, withPath("/srv/cameras/1"), ""},
		"host port":           {north, func(a *wire.Assignment) { a.Containers[0].HostPorts = []int32{22} }, "pool north does not allow host port 22 (it allows 80)"},
		"device file": {north, func(a *wire.Assignment) {
			a.Containers[0].Devices = []wire.DeviceFile{{Path: "/dev/sda", Permissions: "rw"}}
		}, "pool north does not allow device file /dev/sda"},
		"another namespace":       {north, func(a *wire.Assignment) { a.Namespace = "south" }, "pool north does not admit namespace south"},
		"no host network":         {&grant.Grant{Pool: "p", Namespaces: []string{"default"}, NoHostNetwork: true}, func(*wire.Assignment) {}, "pool p does not allow the host's network"},
		"nothing beyond the rule": {north, func(*wire.Assignment) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, h := newDevice(t, 1), newHub(t)
			d.rt.Publish(img("1"), nil)
			d.start(0)
			h.grant = tc.grant
			h.set(assignment("cam", img("1"), tc.change))
			h.tell(d)
			d.pass(10 * time.Minute)
			st, c := d.status("cam"), d.condition("PoolRefuses")
			if tc.want == "" {
				d.runs("cam=" + img("1"))
				if c.Status != "False" || st.Phase != "Running" {
					t.Errorf("got phase %s and condition %+v, want it to run", st.Phase, c)
				}
				return
			}
			d.runs()
			if st.Phase != "Failed" || !strings.Contains(st.Message, tc.want) {
				t.Errorf("status: got %s %q, want Failed with %q", st.Phase, st.Message, tc.want)
			}
			if c.Status != "True" || !strings.Contains(c.Message, tc.want) {
				t.Errorf("condition: got %+v, want it to say %q", c, tc.want)
			}
			if n := d.journaled("PoolRefuses"); n != 1 {
				t.Errorf("journalled %d times, want once", n)
			}
			d.start(0) // the stored bundle is judged alike
			d.pass(time.Minute)
			d.runs()
			if name != "privileged" {
				return
			}
			h.grant = &grant.Grant{Pool: "north", Namespaces: []string{"default"}, Privileged: true}
			h.rev++
			h.tell(d)
			d.pass(time.Minute)
			d.runs("cam=" + img("1"))
		})
	}
}

// What runs when its grant goes, runs on until the hub orders it away: no bundle without a tombstone stops anything. It is not begun anew.
func TestARunningCopyOutlivesItsGrantButIsNotStartedAgain(t *testing.T) {
	d, h := newDevice(t, 2), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.rt.Publish(img("2"), nil)
	d.start(0)
	h.grant = &grant.Grant{Pool: "north", Namespaces: []string{"default"}, HostPaths: []string{"/srv"}}
	h.set(assignment("cam", img("1"), withPath("/srv/a")))
	h.tell(d)
	d.runs("cam=" + img("1"))

	h.grant = &grant.Grant{Pool: "north", Namespaces: []string{"default"}}
	h.set(assignment("cam", img("2"), withPath("/srv/a")))
	h.tell(d)
	d.pass(time.Minute)
	d.runs("cam=" + img("1"))
	if st := d.status("cam"); !strings.Contains(st.Message, "pool north does not allow host path /srv/a") {
		t.Errorf("status: got %+v, want the pool named", st)
	}
	d.reboot()
	d.start(0)
	d.pass(time.Hour)
	d.runs()
	h.remove("cam")
	h.tell(d)
	d.pass(time.Minute)
	if c := d.condition("PoolRefuses"); c.Status != "False" {
		t.Errorf("after the removal: condition %+v, want it gone", c)
	}
}

// After the stored bundle is lost the containers that the runtime holds go on under the grant under which they were made.
func TestALostBundleIsRebuiltWithItsGrant(t *testing.T) {
	d, h := newDevice(t, 3), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.start(0)
	h.grant = &grant.Grant{Pool: "north", Namespaces: []string{"default"}, Privileged: true}
	h.set(assignment("cam", img("1"), withPrivilege))
	h.tell(d)
	d.runs("cam=" + img("1"))
	for _, name := range []string{"bundle", "bundle.prev"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	d.reboot()
	d.start(0)
	d.pass(time.Minute)
	d.runs("cam=" + img("1"))
}
