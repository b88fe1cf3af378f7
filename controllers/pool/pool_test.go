package pool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

func TestPoolsTellTheirDevicesAndWithWhomTheyShare(t *testing.T) {
	pool := func(name, key string, weight int32) *api.DevicePool {
		return &api.DevicePool{Metadata: api.ObjectMeta{Name: name, Generation: 2}, Spec: api.DevicePoolSpec{Weight: weight,
			Selector: &api.LabelSelector{MatchExpressions: []api.LabelSelectorRequirement{{Key: key, Operator: api.OpExists}}}}}
	}
	device := func(name string, labels ...string) *api.Device {
		d := &api.Device{Metadata: api.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, l := range labels {
			d.Metadata.Labels[l] = "x"
		}
		return d
	}
	pools := []*api.DevicePool{pool("a", "north", 0), pool("b", "north", 0), pool("heavy", "cam", 9), pool("alone", "lab", 0)}
	devices := []*api.Device{device("1", "north"), device("2", "north", "cam"), device("3", "lab"), device("4")}
	now := time.Unix(1e9, 0)
	got := map[string]string{}
	for _, it := range plan(pools, devices, now) {
		p := it.Object.(*api.DevicePool)
		s := fmt.Sprint(p.Status.Devices, " of ", p.Status.Selected, " at ", p.Status.ObservedGeneration)
		if c := api.FindCondition(p.Status.Conditions, CondOverlap); c != nil {
			s += ": " + strings.TrimPrefix(c.Message[:strings.Index(c.Message, ";")], "shares devices: ")
		}
		got[p.Metadata.Name] = s
	}
	want := map[string]string{
		"a":     "1 of 2 at 2: 2 with pool b, 1 with pool heavy",
		"b":     "0 of 2 at 2: 2 with pool a, 1 with pool heavy",
		"heavy": "1 of 1 at 2: 1 with pool a, 1 with pool b",
		"alone": "1 of 1 at 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	// What stands is not written again, and an overlap that ends is taken back.
	var after []*api.DevicePool
	for _, it := range plan(pools, devices, now) {
		after = append(after, it.Object.(*api.DevicePool))
	}
	if again := plan(after, devices, now.Add(time.Hour)); len(again) != 0 {
		t.Errorf("got %d writes though nothing changed", len(again))
	}
	for _, it := range plan(after, devices[2:], now) {
		if c := api.FindCondition(it.Object.(*api.DevicePool).Status.Conditions, CondOverlap); c != nil {
			t.Errorf("%s: got %+v, want no overlap left", it.Object.Meta().Name, c)
		}
	}
}
