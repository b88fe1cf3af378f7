package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/remote"
)

// wrote is a link: at second s an actor wrote an object, with changes given as path, old and new.
func wrote(s int, actor, verb, object string, depth int, changes ...[3]string) remote.Link {
	var d diff
	for _, c := range changes {
		d.Changes = append(d.Changes, fieldChange{c[0], c[1], c[2]})
	}
	b, _ := json.Marshal(d)
	at := time.Date(2026, 11, 30, 3, 20, s, 0, time.UTC)
	return remote.Link{Time: api.TimeOf(at), Actor: actor, Verb: verb, Object: object, Diff: b, Depth: depth}
}

func TestAChainIsReadInAMinute(t *testing.T) {
	chain := &remote.Chain{
		Object: "Workload default/hello", Complete: true,
		Links: []remote.Link{
			wrote(9, "controller:workload", "status", "Workload default/hello", 0,
				[3]string{"status.conditions[1].lastTransitionTime", `"2026"`, `"2027"`}, [3]string{"status.conditions[1].reason", `"CopiesNotReady"`, `"CopiesReady"`}, [3]string{"status.counts.ready", "2", "3"}),
			wrote(7, "device:pi-1", "status", "Assignment default/hello.pi-1", 0, [3]string{"status.phase", `"Starting"`, `"Running"`}, [3]string{"status.ready", "", "true"}, [3]string{"status.reportedAt", `"a"`, `"b"`}),
			wrote(3, "user:eve", "update", "Workload default/hello", 0,
				[3]string{"spec.template.spec.containers[0].image", `"app:1"`, `"app@sha256:0123456789abcdef0123456789abcdef"`}, [3]string{"spec.paused", "true", ""}, [3]string{"status.images[\"app:1\"]", "", `"x"`}),
		},
		Effects: []remote.Link{
			wrote(3, "controller:all", "create", "WorkloadRevision default/hello-2", 1, [3]string{"metadata.ownerReferences[0].uid", "", `"u"`}, [3]string{"spec.revision", "", "2"}),
			wrote(4, "controller:all", "status", "Workload default/hello", 1, [3]string{"status.counts.reached", "3", "0"}),
			wrote(5, "controller:all", "update", "Assignment default/hello.pi-1", 3, [3]string{"spec.revision", `"hello-1"`, `"hello-2"`}),
			wrote(5, "hub:h1", "status", "Device pi-1", 3, [3]string{"status.bundle.desired.revision", `"1"`, `"2"`}),
			wrote(6, "device:pi-1", "status", "Assignment default/hello.pi-1", 4, [3]string{"status.phase", `"Running"`, `"Pulling"`}, [3]string{"status.ready", "true", ""}),
			wrote(6, "hub:h1", "status", "Device pi-1", 4, [3]string{"status.identity.sequence", "7", "8"}, [3]string{"status.identity.journalAcked", "7", "8"}),
			wrote(9, "device:pi-1", "status", "Assignment default/hello.pi-1", 4, [3]string{"status.phase", `"Pulling"`, `"Running"`}, [3]string{"status.ready", "", "true"}),
		},
	}
	want := `Workload default/hello, newest first:
  now      2026-11-30T03:20:09Z  controller:workload  status Workload default/hello         CopiesReady
  because  2026-11-30T03:20:07Z  device:pi-1          status Assignment default/hello.pi-1  phase Running, ready
  because  2026-11-30T03:20:03Z  user:eve             update Workload default/hello         image app:1 -> app@sha256:0123456789ab, not paused

what came of it:
  2026-11-30T03:20:03Z  create WorkloadRevision default/hello-2  revision 2
  2026-11-30T03:20:05Z  update Assignment default/hello.pi-1     revision hello-1 -> hello-2, then phase Pulling, not ready (+1s), then phase Running, ready (+4s)
`
	if d := cmp.Diff(want, story{limit: 20}.tell(chain)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	all := story{limit: 20, all: true}.tell(chain)
	for _, l := range append(chain.Links, chain.Effects...) {
		for _, c := range diffOf(l).Changes {
			if !strings.Contains(all, c.Path) {
				t.Errorf("--all leaves out %s:\n%s", c.Path, all)
			}
		}
	}
}

func TestAFleetOfAlikeCopiesIsCutShort(t *testing.T) {
	chain := &remote.Chain{Object: "Workload default/hello", Complete: true}
	for i := range 120 {
		chain.Effects = append(chain.Effects, wrote(1, "controller:all", "create", fmt.Sprintf("Assignment default/hello.pi-%d", i), 1, [3]string{"spec.device", "", fmt.Sprintf(`"pi-%d"`, i)}))
	}
	got := story{limit: 20}.tell(chain)
	if n := strings.Count(got, "create Assignment"); n != maxShownAlike || !strings.Contains(got, "and 110 more of kind Assignment; --all shows every write") {
		t.Errorf("got %d copies:\n%s", n, got)
	}
}

func TestAChainSaysWhereItEnds(t *testing.T) {
	link := wrote(1, "controller:all", "status", "Device pi-1", 0)
	for _, c := range []struct {
		chain remote.Chain
		limit int
		want  string
	}{
		{remote.Chain{Links: []remote.Link{link}, End: "the record\nis no longer kept"}, 20, "  the chain breaks off here: the record is no longer kept\n"},
		{remote.Chain{Links: []remote.Link{link}}, 20, "  the chain breaks off here: the hub does not say why\n"},
		{remote.Chain{Links: []remote.Link{link, link, link}, Complete: true}, 1, "  and 2 more; --limit shows them\n"},
		{remote.Chain{Links: []remote.Link{{Verb: "update", Diff: json.RawMessage(`"odd"`)}}, Complete: true}, 20, "a diff of another form"},
	} {
		if got := (story{limit: c.limit}).tell(&c.chain); !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q in it", got, c.want)
		}
	}
}

func TestAWriteThatKeepsBooksIsToldInWords(t *testing.T) {
	for path, want := range map[string]string{
		"status.identity.sequence": "a report came in", "status.bundle.held.hash": "it took what it should run",
		"status.bundle.desired.hash": "what it should run was made anew", "status.identity.certificateNotAfter": "a certificate was issued",
	} {
		if got := bookWord([]fieldChange{{Path: path, New: "5"}}); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestAConditionsMessageIsNotCutBeforeItsCause(t *testing.T) {
	message := `image "127.0.0.1:5999/hello:1": registry of 127.0.0.1:5999/hello:1 cannot be asked: connection refused`
	got := sayChange(fieldChange{Path: "status.conditions[ImageResolved].message", New: strconv.Quote(message)})
	if got != message {
		t.Errorf("got %q, want all of %q", got, message)
	}
}

func TestInterruptedSaysWhatGoesOn(t *testing.T) {
	for line, want := range map[string]string{
		"get -- devices": "interrupted", "--server x why -- w/hello": "interrupted", "rollout status -- hello": "interrupted; what was followed goes on",
		"rollout history -- hello": "interrupted", "apply -f x": "interrupted; what was sent to the hub goes on there",
		"rollout undo -- status": "interrupted; what was sent to the hub goes on there",
	} {
		if got := interrupted(append([]string{"drover"}, strings.Fields(line)...)); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestALineSaysNoCountTwice(t *testing.T) {
	r := ro(1, api.RolloutProgressing, api.WaveStatus{Selected: 3, Updated: 1})
	p := &progress{workload: wl("hello-1", 1, 1), rollout: r}
	for cause, want := range map[string]string{
		"1 of 3 copies are updated, waiting for hello.pi-02 to be told": "; waiting for hello.pi-02 to be told",
		"1 of 3 copies are updated":                                     "pending-offline",
		"no step forward in 10m0s: 1 of 3 copies are updated":           "; no step forward in 10m0s: 1 of 3 copies are updated",
	} {
		r.Status.Cause = cause
		if got := p.line(); !strings.HasSuffix(got, want) || strings.Count(got, "updated") > 1 && !strings.Contains(cause, "no step") {
			t.Errorf("cause %q: got %q, want the counts and then %q", cause, got, want)
		}
	}
}

func TestEventsAreListedNewestLast(t *testing.T) {
	rows := make([]remote.Row, 3)
	for i, rv := range []string{"1099511627790", "99", "1099511627789"} {
		rows[i].Object.Metadata.ResourceVersion = rv
	}
	slices.SortStableFunc(rows, newestLast)
	got := []string{rows[0].Object.Metadata.ResourceVersion, rows[1].Object.Metadata.ResourceVersion, rows[2].Object.Metadata.ResourceVersion}
	if want := []string{"99", "1099511627789", "1099511627790"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
