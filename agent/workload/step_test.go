package workload

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

func wanted(t *testing.T, image string) *Wanted {
	t.Helper()
	a := sample()
	a.Containers[0].Image = image
	w, err := NewWanted(a, wire.Hash(image))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func seen(w *Wanted, state State, run uint32) Container {
	return Container{ID: w.ID("d", "main"), UID: "u", Name: "main", RunHash: w.RunHash, State: state, Image: w.Assignment.Containers[0].Image,
		Run: Run{Number: run, BootID: "b", Boot: time.Minute}}
}

func TestTheNextStepFollowsFromWhatIsSeen(t *testing.T) {
	old, now := wanted(t, "old"), wanted(t, "new")
	ready, unknown, missing := ImageState{Known: true, Ready: true}, ImageState{}, ImageState{Known: true}
	for _, c := range []struct {
		name   string
		want   *Wanted
		before *Wanted
		seen   []Container
		image  ImageState // of the new
		action Kind
		id     string
	}{
		{"nothing there, image not looked for", now, nil, nil, unknown, 0, ""},
		{"nothing there", now, nil, nil, ready, Create, now.ID("d", "main")},
		{"made", now, nil, []Container{seen(now, Made, 0)}, ready, Start, now.ID("d", "main")},
		{"prepared", now, nil, []Container{seen(now, Prepared, 1)}, ready, Start, now.ID("d", "main")},
		{"runs", now, nil, []Container{seen(now, Running, 1)}, ready, 0, ""},
		{"runs, image gone", now, nil, []Container{seen(now, Running, 1)}, missing, 0, ""},
		{"paused", now, nil, []Container{seen(now, Paused, 1)}, ready, Start, now.ID("d", "main")},
		{"old runs, new image missing", now, old, []Container{seen(old, Running, 1)}, missing, 0, ""},
		{"old runs, new image here", now, old, []Container{seen(old, Running, 1)}, ready, Stop, old.ID("d", "main")},
		{"old stopped, new image here", now, old, []Container{seen(old, Made, 1)}, ready, Remove, old.ID("d", "main")},
		{"old stopped, new image not looked for", now, old, []Container{seen(old, Made, 1)}, unknown, 0, ""},
		{"old stopped, new image missing", now, old, []Container{seen(old, Made, 1)}, missing, Start, old.ID("d", "main")},
		{"both there, as no step leaves it", now, old, []Container{seen(old, Running, 1), seen(now, Running, 1)}, ready, Stop, old.ID("d", "main")},
		{"of an unknown spec, image missing", now, nil, []Container{seen(old, Running, 1)}, missing, 0, ""},
		{"removal of what runs", nil, nil, []Container{seen(now, Running, 1)}, ready, Stop, now.ID("d", "main")},
		{"removal of what is stopped", nil, nil, []Container{seen(now, Exited, 1)}, ready, Remove, now.ID("d", "main")},
		{"removal of nothing", nil, nil, nil, ready, Forget, ""},
	} {
		out := Step(Input{Device: "d", UID: "u", Want: c.want, Before: c.before, Seen: c.seen, Memory: &Memory{},
			Images: func(ref string) ImageState {
				if ref == "old" {
					return ready
				}
				return c.image
			},
			Confirmed: func(string, uint32) bool { return true }, Now: Now{BootID: "b", Boot: time.Hour}, Random: func(n int64) int64 { return n / 2 }})
		var kind Kind
		var id string
		if out.Action != nil {
			kind, id = out.Action.Kind, out.Action.ID
		}
		if kind != c.action || id != c.id {
			t.Errorf("%s: got %v %s, want %v %s", c.name, kind, id, c.action, c.id)
		}
	}
}

func TestARemovalIsDoneOnceEverythingIsForgotten(t *testing.T) {
	m := &Memory{}
	in := Input{Device: "d", UID: "u", Memory: m, Now: Now{BootID: "b"}, Random: func(int64) int64 { return 0 }}
	if out := Step(in); out.Gone || out.Action == nil || out.Action.Kind != Forget {
		t.Fatalf("got %+v, want to forget first", out)
	}
	m.Forgotten()
	if out := Step(in); !out.Gone || out.Action != nil {
		t.Errorf("got %+v, want gone", out)
	}
}
