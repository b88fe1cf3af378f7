package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
)

func TestABundleCarriesThePoolAndLeavesOutWhatItRefuses(t *testing.T) {
	yes := true
	in := inputsOf(api.Container{
		Ports:           []api.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 9000}},
		Devices:         []api.DeviceFile{{Path: "/dev/video0", Permissions: "rw"}},
		SecurityContext: &api.SecurityContext{Privileged: &yes},
	})
	in.Pool = &api.DevicePool{Metadata: api.ObjectMeta{Name: "north", ResourceVersion: "7"}, Spec: api.DevicePoolSpec{Namespaces: []string{"default"},
		Allow: api.Privileges{HostPorts: []int32{80}, Devices: []string{"/dev/video*"}, Privileged: true}}}
	b, a := build(t, in)
	want := grant.Grant{Pool: "north", Namespaces: []string{"default"}, HostPorts: []int32{80}, Devices: []string{"/dev/video*"}, Privileged: true}
	if diff := cmp.Diff(&want, b.Grant); diff != "" || b.Newest != 7 {
		t.Errorf("newest %d, grant (-want +got):\n%s", b.Newest, diff)
	}
	c := a.Containers[0]
	if diff := cmp.Diff([]int32{80}, c.HostPorts); diff != "" || !c.Privileged || len(c.Devices) != 1 || c.Devices[0].Path != "/dev/video0" {
		t.Errorf("container: got %+v", c)
	}
	hash := b.Hash.String()
	in.Pool.Spec.Allow.HostPorts = []int32{80, 443}
	if b, _ := build(t, in); b.Hash.String() == hash {
		t.Error("a pool that allows more left the bundle's hash as it was: devices would not be told")
	}
	in.Pool.Spec.Allow.Privileged = false
	b, _ = build(t, in)
	if len(b.Entries) != 0 || len(b.Problems) != 1 || !b.Problems[0].Forbidden || b.Problems[0].Message != "pool north does not allow privileged containers" {
		t.Errorf("got %+v, want it left out with the pool's name", b.Problems)
	}
	notes := planNotes(map[name]*api.Assignment{{"default", "camera.pi-07"}: in.Assignments[0]}, b.Problems, time.Unix(1e9, 0))
	if len(notes) != 1 || !api.ConditionIs(notes[0].Status.Conditions, ConditionPoolRefuses, api.True) || api.FindCondition(notes[0].Status.Conditions, ConditionConfigMissing) != nil {
		t.Errorf("got %+v, want the condition PoolRefuses alone", notes)
	}
	in.Pool = nil
	if b, _ := build(t, in); b.Grant != nil || len(b.Problems) != 1 {
		t.Errorf("without a pool: got %+v and %v, want nothing beyond the default", b.Grant, b.Problems)
	}
}
