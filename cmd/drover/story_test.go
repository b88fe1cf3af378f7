package main

import (
	"encoding/json"
	"fmt"
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
