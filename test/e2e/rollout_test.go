package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestUpdateKeepsTheBudgetAndUndoGoesBack(t *testing.T) {
	f := shared
	f.rollOut(t, "budget", f.workload("budget", "1.0", "first"))
	defer f.remove(t, "budget")
	first := f.assignments(t, "budget")
	if len(first) != 3 {
		t.Fatalf("got %d copies, want 3", len(first))
	}

	worst, stop := f.sampleDown(t, "budget")
	f.rollOut(t, "budget", f.workload("budget", "1.0", "second"))
	stop()
	if *worst > 1 {
		t.Errorf("%d copies were down at once during the update, want at most 1", *worst)
	}
	f.wantLog(t, "budget", "second")
	second := f.assignments(t, "budget")
	for i := range second {
		if second[i].Metadata.UID != first[i].Metadata.UID {
			t.Errorf("%s changed its uid across revisions", second[i].Metadata.Name)
		}
	}

	f.drover(t, 0, "rollout", "undo", "budget")
	f.drover(t, 0, "rollout", "status", "budget", "--timeout", "90s")
	f.wantLog(t, "budget", "first")
	history := f.drover(t, 0, "rollout", "history", "budget")
	if lines := strings.Count(strings.TrimSpace(history), "\n"); lines != 2 {
		t.Errorf("history shows %d revisions, want 2:\n%s", lines, history)
	}
}

// sampleDown counts, as containerd sees it, how many of three copies are not running, until stop is called.
func (f *fleet) sampleDown(t *testing.T, workload string) (worst *int, stop func()) {
	t.Helper()
	worst = new(int)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				*worst = max(*worst, len(f.Devices)-len(f.containers(t, workload)))
			}
		}
	})
	return worst, func() { close(done); wg.Wait() }
}

// wantLog waits until every copy's log ends with the greeting.
func (f *fleet) wantLog(t *testing.T, workload, greeting string) {
	t.Helper()
	f.until(t, 20*time.Second, "every log of "+workload+" says "+greeting, func() error {
		out := f.drover(t, 0, "logs", workload, "--tail", "1")
		if got := strings.Count(out, greeting); got != len(f.Devices) {
			return fmt.Errorf("%d of %d do:\n%s", got, len(f.Devices), out)
		}
		return nil
	})
}

func TestReplicasGoToDifferentDevicesAndScale(t *testing.T) {
	f := shared
	manifest := strings.Replace(f.workload("few", "1.0", "few"), "everywhere: true", "replicas: 2", 1)
	f.rollOut(t, "few", manifest)
	defer f.remove(t, "few")
	if got := f.containers(t, "few"); len(got) != 2 {
		t.Fatalf("replicas run on %d devices, want 2: %v", len(got), got)
	}
	f.rollOut(t, "few", strings.Replace(manifest, "replicas: 2", "replicas: 1", 1))
	f.until(t, 30*time.Second, "one copy is left", func() error {
		if got := f.containers(t, "few"); len(got) != 1 {
			return fmt.Errorf("%d run", len(got))
		}
		return nil
	})
}

func TestUnknownTagRefusesTheApplyAndUnreachableRegistryStartsNothing(t *testing.T) {
	f := shared
	out, err := f.DroverIn(within(t, 30*time.Second), f.workload("tagless", "9.9", "x"), "apply", "-f", "-")
	if exitCode(err) != 1 || err == nil || !strings.Contains(err.Error(), "hello:9.9") {
		t.Fatalf("apply of an unknown tag: exit %d, %v %s; want 1 and the image's name", exitCode(err), err, out)
	}
	f.drover(t, 1, "get", "workload", "tagless")

	manifest := strings.Replace(f.workload("remote", "1.0", "x"), f.Registry, "127.0.0.1:1", 1)
	f.droverIn(t, 0, manifest, "apply", "-f", "-")
	defer f.remove(t, "remote")
	f.drover(t, 0, "wait", "--for", "condition=ImageResolved=False", "workload/remote")
	if got := f.containers(t, "remote"); len(got) > 0 {
		t.Errorf("containers started without a resolved image: %v", got)
	}
}
