package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/controllers/copies"
)

// placedSays checks the condition Placed of a workload; "" wants none.
func (f *fleet) placedSays(workload, want string) string {
	f.Helper()
	c := api.FindCondition(get[*api.Workload](f, api.KindWorkload, workload).Status.Conditions, copies.CondPlaced)
	switch {
	case c == nil && want == "":
		return ""
	case c == nil || want == "" || !strings.Contains(c.Message, want):
		return fmt.Sprintf("condition Placed is %+v, want %q", c, want)
	}
	return ""
}

func (f *fleet) bindings(want int, on func(device string) bool) string {
	f.Helper()
	n := 0
	for _, a := range list[*api.Assignment](f, api.KindAssignment) {
		if a.Spec.Device != "" && !on(a.Spec.Device) {
			return fmt.Sprintf("%s is on %s", a.Metadata.Name, a.Spec.Device)
		}
		if a.Spec.Device != "" {
			n++
		}
	}
	if n != want {
		return fmt.Sprintf("%d copies are bound, want %d", n, want)
	}
	return ""
}

func TestCopiesLeaveDevicesThatAPoolTakesFromTheirNamespaceAndComeBack(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(everywhere("cam", "app:1", 6))
		web := replicated("web", 3, "")
		web.Spec.Placement.All, web.Spec.Placement.Selector = true, nil
		f.create(web)
		f.eventually(time.Minute, func() string { return f.ready(9) })
		south := func(device string) bool {
			return get[*api.Device](f, api.KindDevice, device).Metadata.Labels["site"] == "south"
		}
		f.create(&api.DevicePool{Metadata: api.ObjectMeta{Name: "north"}, Spec: api.DevicePoolSpec{
			Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}, Namespaces: []string{"other"}}})
		f.eventually(time.Minute, func() string { return f.bindings(5, south) }) // two of cam, three of web
		f.eventually(time.Minute, func() string {
			return f.placedSays("cam", "4 selected devices get no copy: pool north does not admit namespace default")
		})
		if p := get[*api.DevicePool](f, api.KindDevicePool, "north"); p.Status.Devices != 4 || p.Status.Selected != 4 {
			t.Errorf("pool's status: got %+v, want 4 devices", p.Status)
		}
		change(f, api.KindDevicePool, "north", func(p *api.DevicePool) { p.Spec.Namespaces = []string{"other", "default"} })
		f.eventually(time.Minute, func() string { return f.placedSays("cam", "") })
		f.eventually(time.Minute, func() string { return f.ready(9) })
	})
}

func TestAsManyCopiesAreMadeAsAQuotaLetsAndTheRestOnceThereIsRoom(t *testing.T) {
	bubble(t, 6, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(&api.ResourceQuota{Metadata: api.ObjectMeta{Name: "small", Namespace: api.DefaultNS}, Spec: api.ResourceQuotaSpec{
			Hard: api.ResourceList{"assignments": api.MilliQuantity(4000)}}})
		f.create(everywhere("cam", "app:1", 6))
		every := func(string) bool { return true }
		f.eventually(time.Minute, func() string { return f.bindings(4, every) })
		f.eventually(time.Minute, func() string {
			return f.placedSays("cam", "exceeded quota: small, requested: assignments=1, used: assignments=4, limited: assignments=4")
		})
		change(f, api.KindResourceQuota, "small", func(q *api.ResourceQuota) { q.Spec.Hard["assignments"] = api.MilliQuantity(6000) })
		f.eventually(time.Minute, func() string { return f.ready(6) })
		f.eventually(time.Minute, func() string { return f.placedSays("cam", "") })
		if q := get[*api.ResourceQuota](f, api.KindResourceQuota, "small"); q.Status.Used["assignments"].Bytes() != 6 {
			t.Errorf("used: got %v, want 6", q.Status.Used)
		}
	})
}

func TestARolloutThatAsksForMoreThanAQuotaSaysSoAndGoesOnOnceThereIsRoom(t *testing.T) {
	bubble(t, 3, func(f *fleet) {
		f.pass(5 * time.Second)
		f.create(&api.ResourceQuota{Metadata: api.ObjectMeta{Name: "cpu", Namespace: api.DefaultNS}, Spec: api.ResourceQuotaSpec{
			Hard: api.ResourceList{"requests.cpu": api.MilliQuantity(300)}}})
		w := everywhere("cam", "app:1", 3)
		w.Spec.Template.Spec.Containers[0].Resources.Requests = api.ResourceList{"cpu": api.MilliQuantity(100)}
		f.create(w)
		f.eventually(time.Minute, func() string { return f.ready(3) })
		change(f, api.KindWorkload, "cam", func(w *api.Workload) {
			w.Spec.Template.Spec.Containers[0].Resources.Requests["cpu"] = api.MilliQuantity(200)
		})
		f.eventually(time.Minute, func() string {
			for _, r := range list[*api.Rollout](f, api.KindRollout) {
				if strings.Contains(r.Status.Cause, "exceeded quota: cpu, requested: requests.cpu=300m, used: requests.cpu=300m") {
					return ""
				}
			}
			return "no rollout says that it waits for the quota"
		})
		change(f, api.KindResourceQuota, "cpu", func(q *api.ResourceQuota) { q.Spec.Hard["requests.cpu"] = api.MilliQuantity(600) })
		f.eventually(2*time.Minute, func() string { return f.settled("cam", api.RolloutCompleted) })
	})
}
