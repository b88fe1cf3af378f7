package grant

import (
	"strings"
	"testing"
)

func TestHostPathIsAllowedAtAndBelowARootAndNowhereElse(t *testing.T) {
	g := Grant{Pool: "north", Namespaces: []string{"n"}, HostPaths: []string{"/srv/cameras", "/srv/cameras/a/", "/var/lib/x"}}
	for path, root := range map[string]string{
		"/srv/cameras":                  "/srv/cameras",
		"/srv/cameras/":                 "/srv/cameras",
		"/srv//cameras/./1":             "/srv/cameras",
		"/srv/cameras/a/b":              "/srv/cameras",
		"/srv/cameras/a":                "/srv/cameras",
		"/srv/cam":                      "",
		"/srv/cameras2":                 "",
		"/srv/camerasX/1":               "",
		"/srv":                          "",
		"/":                             "",
		"":                              "",
		"srv/cameras":                   "",
		"/srv/cameras/../../etc":        "",
		"/srv/cameras/..":               "",
		"/srv/cameras/x/../y":           "",
		"/srv/cameras\x00/etc":          "",
		"/etc/../srv/cameras":           "",
		"/srv/cameras/..hidden":         "/srv/cameras",
		"/var/lib/x/\xff":               "/var/lib/x",
		"/var/lib/x" + "/deep/and/deep": "/var/lib/x",
	} {
		got, ok := g.Root(path)
		if got != root || ok != (root != "") {
			t.Errorf("root of %q: got %q %v, want %q", path, got, ok, root)
		}
	}
	if _, ok := (Grant{HostPaths: []string{"/"}}).Root("/etc/passwd"); !ok {
		t.Error("got no, want everything below /")
	}
	if _, ok := (Grant{HostPaths: []string{"/srv/../etc"}}).Root("/etc"); ok {
		t.Error("got yes: a root that steps back allows nothing")
	}
}

func TestDeviceFilesMatchGlobsWithinDev(t *testing.T) {
	g := Grant{Devices: []string{"/dev/video*", "/dev/serial/by-id/usb-?", "/etc/*", "/dev/snd/[pc]*", "[/dev/x"}}
	for path, want := range map[string]bool{
		"/dev/video0": true, "/dev/video12": true, "/dev/video": true, "/dev//video0": true,
		"/dev/video0/x": false, "/dev/videos/0": false, "/dev/../etc/shadow": false, "/dev/video/../sda": false, "/etc/passwd": false,
		"/dev/serial/by-id/usb-1": true, "/dev/serial/by-id/usb-11": false, "/dev/sda": false, "/dev": false, "video0": false,
		"/dev/snd/pcmC0D0p": true, "/dev/snd/timer": false, "/dev/x": false, "/dev/video\x00": false,
	} {
		if got := g.AllowsDevice(path); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}

func TestDenialsAreEverythingThatIsNotAllowed(t *testing.T) {
	north := Grant{Pool: "north", Namespaces: []string{"north"}, HostPorts: []int32{80}}
	needs := []Need{{What: HostPort, Port: 80}, {What: HostPort, Port: 22}, {What: Privileged}}
	for ns, want := range map[string]string{
		"north": "pool north does not allow host port 22 (it allows 80); pool north does not allow privileged containers",
		"south": "pool north does not admit namespace south (it admits north)", // what else it asks for does not matter any more
	} {
		var got []string
		for _, d := range north.Denials(ns, needs) {
			got = append(got, d.String())
		}
		if strings.Join(got, "; ") != want || got[0] != north.Judge(ns, needs).String() {
			t.Errorf("namespace %s: got %q, want %q", ns, got, want)
		}
	}
	if got := north.Denials("north", needs[:1]); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestDenialNamesPoolFieldAndWhatIsAllowed(t *testing.T) {
	north := Grant{Pool: "north", Namespaces: []string{"north"}, HostPorts: []int32{80, 443}, HostPaths: []string{"/srv/cameras"}, Devices: []string{"/dev/video*"}}
	closed := Grant{Pool: "lab", Namespaces: []string{Every}, NoHostNetwork: true}
	for _, tc := range []struct {
		name  string
		g     Grant
		ns    string
		need  Need
		want  string // "" = allowed
		field bool
	}{
		{"another namespace", north, "south", Need{What: HostNetwork}, "pool north does not admit namespace south (it admits north)", false},
		{"network by default", north, "north", Need{What: HostNetwork}, "", false},
		{"port", north, "north", Need{What: HostPort, Port: 443}, "", false},
		{"another port", north, "north", Need{What: HostPort, Port: 22}, "pool north does not allow host port 22 (it allows 80, 443)", true},
		{"path", north, "north", Need{What: HostPath, Path: "/etc"}, "pool north does not allow host path /etc (it allows /srv/cameras)", true},
		{"device", north, "north", Need{What: DeviceFile, Path: "/dev/sda"}, "pool north does not allow device file /dev/sda (it allows /dev/video*)", true},
		{"privileged", north, "north", Need{What: Privileged}, "pool north does not allow privileged containers", true},
		{"a pool without the network", closed, "any", Need{What: HostNetwork}, "pool lab does not allow the host's network", true},
		{"none of a kind", closed, "any", Need{What: HostPath, Path: "/x"}, "pool lab does not allow host path /x (it allows none)", true},
		{"no pool, network", Grant{}, "any", Need{What: HostNetwork}, "", false},
		{"no pool, port", Grant{}, "any", Need{What: HostPort, Port: 80}, "no pool of the device allows host port 80", true},
		{"no pool, path", Grant{}, "any", Need{What: HostPath, Path: "/x"}, "no pool of the device allows host path /x", true},
		{"no pool, privileged", Grant{}, "any", Need{What: Privileged}, "no pool of the device allows privileged containers", true},
		{"what is not known is not allowed", Grant{Privileged: true}, "any", Need{What: 99}, "no pool of the device allows a privilege that this build does not know", true},
	} {
		tc.need.Field = "f"
		d := tc.g.Judge(tc.ns, []Need{tc.need})
		got, field := "", false
		if d != nil {
			got, field = d.String(), d.Field == "f"
		}
		if got != tc.want || field != tc.field {
			t.Errorf("%s: got %q (field %v), want %q (%v)", tc.name, got, field, tc.want, tc.field)
		}
	}
	long := (Grant{Pool: "p", HostPaths: strings.Split(strings.Repeat("/a ", 20), " ")[:20], Namespaces: []string{Every}}).
		Judge("n", []Need{{What: HostPath, Path: "/" + strings.Repeat("x", 5000)}}).String()
	if len(long) > 300 || !strings.Contains(long, "and 12 more") {
		t.Errorf("got %d bytes: %.80s", len(long), long)
	}
}
