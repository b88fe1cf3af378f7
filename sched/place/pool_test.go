package place

import (
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
)

func TestDevicesOfAPoolThatRefusesAreLeftOutWithItsName(t *testing.T) {
	north := grant.Grant{Pool: "north", Namespaces: []string{"north"}, HostPaths: []string{"/srv"}}
	lab := grant.Grant{Pool: "lab", Namespaces: []string{"*"}}
	fleet := func() *Snapshot {
		return NewSnapshot(boards(4, func(i int, d *Device) { d.Grant = []grant.Grant{north, north, lab, {}}[i] }))
	}
	needs := []grant.Need{{What: grant.HostPath, Path: "/srv/x"}}
	r := fleet().Place(&Ask{Selector: api.Everything(), Namespace: "north", Needs: needs, Copies: names(2)})
	for _, c := range r.Choices {
		if c.Device != "pi-00000" && c.Device != "pi-00001" {
			t.Errorf("got %s on %s, want a device of pool north", c.Copy, c.Device)
		}
	}
	if len(r.Choices) != 2 {
		t.Errorf("got %+v, want both placed", r)
	}
	r = fleet().Place(&Ask{Selector: api.Everything(), Namespace: "south", Needs: needs, Copies: names(1)})
	want := "0/4 devices: 2 pool north does not admit namespace south, 1 no pool of the device allows host path /srv/x, 1 pool lab does not allow host path /srv/x"
	if r.Sentence != want {
		t.Errorf("got %q, want %q", r.Sentence, want)
	}
	if r := fleet().Place(&Ask{Selector: api.Everything(), Namespace: "south", Copies: names(1)}); len(r.Choices) != 1 || r.Choices[0].Device < "pi-00002" {
		t.Errorf("got %+v, want a device that admits south", r)
	}
}

func TestCopiesThatWantOneHostPortAreKeptApart(t *testing.T) {
	fleet := NewSnapshot(boards(3, nil))
	fleet.Bind("pi-00001", 0, 0, []string{"80/TCP"})
	r := fleet.Place(&Ask{Selector: api.Everything(), HostPorts: []string{"80/TCP"}, Copies: names(3)})
	if len(r.Choices) != 2 || r.Choices[0].Device == r.Choices[1].Device || r.Sentence != "0/3 devices: 3 host port 80/TCP taken" {
		t.Errorf("got %+v, want two on devices of their own and the third refused", r)
	}
	if r := fleet.Place(&Ask{Selector: api.Everything(), HostPorts: []string{"80/UDP"}, Copies: names(3)}); len(r.Choices) != 3 {
		t.Errorf("got %+v, want the other protocol's port free", r)
	}
}
