package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
)

func poolNamed(name string, labels map[string]string, namespaces ...string) *api.DevicePool {
	return &api.DevicePool{Metadata: api.ObjectMeta{Name: name}, Spec: api.DevicePoolSpec{Selector: &api.LabelSelector{MatchLabels: labels}, Namespaces: namespaces}}
}

func TestCopiesAreNotMadeWhereAPoolRefusesAndGoWhereItDoesNowRefuse(t *testing.T) {
	w := on(api.Placement{Everywhere: true, All: true})
	south := func(d *api.Device) { d.Metadata.Labels["site"] = "south" }
	v := view{workload: w, birth: rev1, now: noon, devices: []*api.Device{device("a", nil), device("b", nil), device("c", south)},
		assignments: []*api.Assignment{placed(w, "w.a", "a", -1)}}

	p, err := makePlan(v)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create w.b b", "create w.c c"}, told(p)); diff != "" {
		t.Errorf("without pools (-want +got):\n%s", diff)
	}
	if c := api.FindCondition(p.status.Conditions, copies.CondPlaced); c != nil {
		t.Errorf("got %+v, want no condition while nothing hinders", c)
	}

	v.pools = api.NewPools([]*api.DevicePool{poolNamed("north", map[string]string{"site": "north"}, "other")})
	if p, err = makePlan(v); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete w.a", "create w.c c"}, told(p)); diff != "" {
		t.Errorf("with a pool of another namespace (-want +got):\n%s", diff)
	}
	c := api.FindCondition(p.status.Conditions, copies.CondPlaced)
	const want = "2 selected devices get no copy: pool north does not admit namespace default (it admits other)"
	if c == nil || c.Status != api.False || c.Reason != "PoolRefuses" || c.Message != want {
		t.Errorf("condition: got %+v, want %q", c, want)
	}
	if p.status.Counts.Desired != 1 {
		t.Errorf("desired: got %d, want only what may be", p.status.Counts.Desired)
	}
	w.Status = p.status
	v.pools = api.Pools{}
	if p, err = makePlan(v); err != nil || api.FindCondition(p.status.Conditions, copies.CondPlaced) != nil {
		t.Errorf("got %+v, %v; want the condition gone with the pool", p.status.Conditions, err)
	}
}

func TestTheCopyThatWasThereFirstKeepsAHostPort(t *testing.T) {
	w := on(api.Placement{Everywhere: true, All: true})
	w.Spec.Template.Spec.Containers = []api.Container{{Ports: []api.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: "TCP"}}}}
	v := view{workload: w, birth: rev1, now: noon, devices: []*api.Device{device("a", nil)}}
	v.pools = api.NewPools([]*api.DevicePool{{Metadata: api.ObjectMeta{Name: "p"}, Spec: api.DevicePoolSpec{All: true, Namespaces: []string{"*"},
		Allow: api.Privileges{HostPorts: []int32{80}}}}})
	other := &api.Assignment{Metadata: api.ObjectMeta{Name: "web.a", Namespace: "shop", UID: "b", CreationTimestamp: api.TimeOf(noon)}, Spec: api.AssignmentSpec{Workload: "web", Device: "a"}}
	v.holds = func(string) []holder { return []holder{{other, []string{"80/TCP"}}} }
	plan := func() plan {
		p, err := makePlan(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan()
	c := api.FindCondition(p.status.Conditions, copies.CondPlaced)
	if len(p.writes) != 0 || c == nil || c.Reason != "HostPortTaken" || !strings.Contains(c.Message, "host port 80/TCP is taken by shop/web") {
		t.Errorf("got %v and %+v, want no copy and who has the port", told(p), c)
	}
	mine := placed(w, "w.a", "a", -1)
	v.assignments = []*api.Assignment{mine}
	for at, want := range map[time.Duration]int{-time.Minute: 0, time.Minute: 1} {
		mine.Metadata.CreationTimestamp = api.TimeOf(noon.Add(at))
		if p := plan(); len(p.writes) != want {
			t.Errorf("made %v after the other: got %v, want %d removed", at, told(p), want)
		}
	}
	v.holds = func(string) []holder { return []holder{{mine, []string{"80/TCP"}}} }
	if p := plan(); len(p.writes) != 0 {
		t.Errorf("its own port: got %v, want it to stay", told(p))
	}
}
