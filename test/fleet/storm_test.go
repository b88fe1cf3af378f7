package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// storm does what people, devices and members do to a fleet, at random and all at once.
type storm struct {
	*fleet
	rnd     *rand.Rand
	devices int
	term    uint64
	stops   []func()
	did     []string
}

func (s *storm) say(format string, args ...any) { s.did = append(s.did, fmt.Sprintf(format, args...)) }

func (s *storm) device() string { return fmt.Sprintf("pi-%d", s.rnd.IntN(s.devices)) }

// hold pauses or resumes the newest rollout, and may abort it, which nothing takes back.
func (s *storm) hold(paused, aborted bool) {
	s.Helper()
	newest := s.newest("hello")
	if newest == nil {
		return
	}
	s.say("%s paused %v aborted %v", newest.Metadata.Name, paused, aborted)
	next := api.Copy(newest)
	next.Spec.Paused, next.Spec.Aborted = paused, aborted || newest.Spec.Aborted
	_, err := s.user.Update(s.ctx, next, client.WriteOptions{})
	if err != nil && !fault.Is(err, fault.Conflict, fault.NotFound) { // it moved on, or went: so it is with people
		s.Fatal(err)
	}
}

func (s *storm) act() {
	s.Helper()
	sites := []string{"north", "south"}
	switch s.rnd.IntN(17) {
	case 0, 1, 2:
		image := fmt.Sprintf("app:%d", s.rnd.IntN(4))
		s.say("push %s", image)
		s.push("hello", image)
	case 3:
		d, on := s.device(), s.rnd.IntN(2) == 0
		s.say("%s online %v", d, on)
		s.fleet.devices.set(d, on)
	case 4:
		n := int32(s.rnd.IntN(3) + 1)
		s.say("budget %d", n)
		change(s.fleet, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.Rollout.MaxUnavailable = &api.IntOrPercent{Count: n} })
	case 5, 6:
		s.hold(s.rnd.IntN(2) == 0, s.rnd.IntN(3) == 0)
	case 7, 8:
		site, d := sites[s.rnd.IntN(2)], s.device()
		s.say("%s site %s", d, site)
		change(s.fleet, api.KindDevice, d, func(d *api.Device) { d.Metadata.Labels = map[string]string{"site": site} })
	case 9, 10:
		p := s.placement()
		s.say("placement %+v", p)
		change(s.fleet, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.Placement = p })
	case 11:
		d, c := s.device(), s.rnd.IntN(2) == 0
		s.say("%s cordoned %v", d, c)
		change(s.fleet, api.KindDevice, d, func(d *api.Device) {
			d.Spec.Unschedulable, d.Spec.Taints = c, nil
			if c {
				d.Spec.Taints = []api.Taint{{Key: "broken", Effect: "NoSchedule"}}
			}
		})
	case 12:
		d := s.device()
		s.say("%s deleted and enrolled again", d)
		s.remove(api.KindDevice, d)
		s.pass(time.Duration(s.rnd.IntN(3)) * time.Second)
		s.addDevice(d, map[string]string{"site": "north"})
	case 13:
		s.say("workload deleted and made again")
		s.remove(api.KindWorkload, "hello")
		s.pass(time.Duration(s.rnd.IntN(3)) * 50 * time.Millisecond)
		s.create(everywhere("hello", "app:1", 1))
	case 14:
		s.term++
		s.say("term %d", s.term)
		s.stops = append(s.stops, s.lead(s.ctx, s.term))
	case 15:
		h := int32(s.rnd.IntN(3))
		s.say("history %d", h)
		change(s.fleet, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.RevisionHistoryLimit = &h })
	case 16:
		down := s.rnd.IntN(2) == 0
		s.say("registry down %v", down)
		s.images.setDown(down)
	}
}

func (s *storm) placement() api.Placement {
	p := api.Placement{}
	if s.rnd.IntN(2) == 0 {
		p.All = true
	} else {
		p.Selector = &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}
	}
	if s.rnd.IntN(2) == 0 {
		p.Everywhere = true
		return p
	}
	n := int32(s.rnd.IntN(5))
	p.Replicas = &n
	return p
}

// quiet fails when an undisturbed fleet goes on writing.
func (s *storm) quiet() {
	s.Helper()
	s.pass(45 * time.Minute)
	at := s.backend.Revision()
	s.pass(time.Hour)
	s.atMost(at, 0, "nobody did anything for hours")
}

func (s *storm) calm() {
	s.Helper()
	s.images.setDown(false)
	s.fleet.devices.behave(func(string, string) outcome { return runs })
	for n := range s.devices {
		d := fmt.Sprintf("pi-%d", n)
		s.fleet.devices.set(d, true)
		change(s.fleet, api.KindDevice, d, func(d *api.Device) { d.Spec.Unschedulable, d.Spec.Taints = false, nil })
	}
	change(s.fleet, api.KindWorkload, "hello", func(w *api.Workload) { w.Spec.Placement = api.Placement{Everywhere: true, All: true} })
	s.push("hello", "app:last")
	s.eventually(30*time.Minute, func() string { return s.settled("hello", api.RolloutCompleted) })
	s.eventually(time.Minute, func() string { return s.runsImage("app:last", s.devices) })
	s.eventually(time.Minute, func() string { return s.left(api.KindTombstone) })
	want := api.Counts{Desired: int32(s.devices), Reached: int32(s.devices), Ready: int32(s.devices), Updated: int32(s.devices)}
	s.eventually(time.Minute, func() string {
		if got := get[*api.Workload](s.fleet, api.KindWorkload, "hello").Status.Counts; got != want {
			return fmt.Sprintf("got %+v, want %+v", got, want)
		}
		return ""
	})
}

func TestFleetSettlesAfterAnyStormAndThenWritesNothing(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, 5, func(f *fleet) {
				s := &storm{fleet: f, rnd: rand.New(rand.NewPCG(seed, 7)), devices: 5, term: 1}
				defer func() {
					if t.Failed() {
						t.Log(strings.Join(s.did, "; "))
					}
					for _, stop := range s.stops {
						stop()
					}
				}()
				f.started(1)
				f.devices.behave(func(device, image string) outcome {
					switch {
					case image == "app:2" && device != "pi-0":
						return crashes
					case image == "app:3" && device != "pi-1":
						return fatal
					}
					return runs
				})
				for range 12 {
					s.act()
					s.pass(time.Duration(s.rnd.IntN(40)) * time.Second / 2)
					if s.rnd.IntN(8) == 0 {
						s.say("quiet")
						s.quiet()
					}
				}
				s.calm()
				s.quiet()
			})
		})
	}
}
