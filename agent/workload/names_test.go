package workload

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

func sample() wire.Assignment {
	return wire.Assignment{UID: "u", Namespace: "default", Name: "cam.pi", Workload: "cam", Revision: "cam-1", GraceSecs: 5,
		Containers: []wire.Container{{Name: "main", Image: "r/a@sha256:1", ImageName: "r/a:1", Env: []wire.Env{{Name: "A", Value: "1"}}}},
		Volumes:    []wire.Volume{{Name: "v"}}}
}

func hash(t *testing.T, a wire.Assignment) string {
	t.Helper()
	h, err := RunHash(a)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRunHashChangesExactlyWhenContainersMustBeMadeAnew(t *testing.T) {
	for _, c := range []struct {
		name   string
		anew   bool
		change func(*wire.Assignment)
	}{
		{"nothing", false, func(*wire.Assignment) {}},
		{"cause", false, func(a *wire.Assignment) { a.CauseRev = 9 }},
		{"name of the revision", false, func(a *wire.Assignment) { a.Revision = "cam-2" }},
		{"grace", false, func(a *wire.Assignment) { a.GraceSecs = 60 }},
		{"restart policy", false, func(a *wire.Assignment) { a.Restart = wire.RestartNever }},
		{"readiness", false, func(a *wire.Assignment) { a.Containers[0].Readiness = &wire.Probe{PeriodSecs: 3} }},
		{"tag of the same digest", false, func(a *wire.Assignment) { a.Containers[0].ImageName = "r/a:latest" }},
		{"digest", true, func(a *wire.Assignment) { a.Containers[0].Image = "r/a@sha256:2" }},
		{"argument", true, func(a *wire.Assignment) { a.Containers[0].Args = []string{"x"} }},
		{"variable", true, func(a *wire.Assignment) { a.Containers[0].Env[0].Value = "2" }},
		{"secret's value", true, func(a *wire.Assignment) { a.Containers[0].Env[0].Secret = &wire.SecretRef{Name: "s", ID: wire.Hash{1}} }},
		{"memory", true, func(a *wire.Assignment) { a.Containers[0].Memory = 1 }},
		{"volume", true, func(a *wire.Assignment) { a.Volumes[0].HostPath = "/srv" }},
		{"a second container", true, func(a *wire.Assignment) { a.Containers = append(a.Containers, wire.Container{Name: "side"}) }},
	} {
		a := sample()
		before := hash(t, sample())
		c.change(&a)
		if anew := hash(t, a) != before; anew != c.anew {
			t.Errorf("%s: made anew %v, want %v", c.name, anew, c.anew)
		}
	}
	a := sample()
	a.Containers[0].Readiness = &wire.Probe{PeriodSecs: 3}
	hash(t, a)
	if a.Containers[0].Readiness == nil {
		t.Error("hashing changed the assignment")
	}
}

func TestContainerIDsTellEveryPartApart(t *testing.T) {
	seen := map[string][4]string{}
	for _, p := range [][4]string{{"d", "u", "c", "h"}, {"du", "", "c", "h"}, {"d", "uc", "c", "h"}, {"d", "u", "ch", ""}, {"d", "u", "c", "h2"}, {"d", "u", "c2", "h"}} {
		id := ContainerID(p[0], p[1], p[2], p[3])
		if other, taken := seen[id]; taken {
			t.Errorf("%v and %v share the name %s", p, other, id)
		}
		if id != ContainerID(p[0], p[1], p[2], p[3]) {
			t.Errorf("%v: the name is not stable", p)
		}
		seen[id] = p
	}
	if long := ContainerID("d", "u", "a-container-name-of-sixty-three-characters-which-is-the-most-there", "h"); len(long) > 76 {
		t.Errorf("%s has %d characters, containerd takes 76", long, len(long))
	}
}

func TestAWaitCountsInItsOwnBootOnly(t *testing.T) {
	now := Now{BootID: "a", Boot: time.Hour}
	m := &ContainerMemory{}
	for range 50 {
		m.failed(now, func(n int64) int64 { return n - 1 })
	}
	if at, waits := m.waiting(now); !waits || at != time.Hour+BackoffMax {
		t.Errorf("same boot: got %v, %v; want the cap", at-time.Hour, waits)
	}
	if _, waits := m.waiting(Now{BootID: "b", Boot: time.Second}); waits {
		t.Error("a wait of another boot holds a start back")
	}
	if _, waits := m.waiting(Now{BootID: "a", Boot: time.Minute}); waits {
		t.Error("a wait longer than the cap is believed")
	}
}
