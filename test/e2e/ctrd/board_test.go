package ctrd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/ctrd"
	machine "github.com/drover-fleet/drover/test/lab"
)

// After a power cut the daemon still knows containers and images; the processes are gone without an exit code, and a start makes
// the next run.
func TestAPowerCutLeavesContainersThatStartAgain(t *testing.T) {
	d := newDevice(t)
	d.ok(d.Create(d.ctx, spec("cut", d.pull(0), "run")))
	d.ok(d.Start(d.ctx, workload.Spec{ID: "cut-c1"}, run(1), nil))
	d.ok(lab.daemon.PowerCut(d.ctx))
	again, err := machine.StartContainerd(d.ctx, lab.daemon.Dir)
	d.ok(err)
	lab.daemon = again
	d.connect()
	if c := d.one(); c.State != workload.Made || c.Run.Number != 1 || string(c.Recovery) != "recovery of cut" {
		t.Fatalf("after the cut: got %s of run %d, want Made of run 1, with its recovery data", c.State, c.Run.Number)
	}
	if here, err := d.HasImage(d.ctx, lab.refs[0]); err != nil || !here {
		t.Errorf("image here %v (%v), want it unpacked still", here, err)
	}
	d.ok(d.Start(d.ctx, workload.Spec{ID: "cut-c1"}, run(2), nil))
	if c := d.one(); c.State != workload.Running || c.Run.Number != 2 {
		t.Errorf("after the start: got %s of run %d, want Running of run 2", c.State, c.Run.Number)
	}
}

// Containers stand in the network namespace of the agent, which need not be the daemon's.
func TestContainersJoinTheAgentsNetwork(t *testing.T) {
	const netns = "drover-e2e-join"
	d := newDevice(t)
	d.ok(machine.AddNetns(netns))
	t.Cleanup(func() {
		if err := machine.DeleteNetns(netns); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(d.ctx, "ip", "netns", "exec", netns, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+lab.daemon.Socket(), dirEnv+"="+d.dir, deviceEnv+"="+d.name,
		imagesEnv+"="+lab.refs[0]+" "+lab.refs[1], killEnv+"=0", fromEnv+"=3", initEnv+"="+lab.app)
	// Images must be here: the registry's loopback address is another one there.
	d.pull(0)
	d.pull(1)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("agent in %s: %v\n%s", netns, err, out)
	}
	tasks, err := lab.daemon.Tasks(d.ctx)
	d.ok(err)
	tasks = slices.DeleteFunc(tasks, func(k machine.Task) bool { return k.Namespace != ctrd.Namespace(d.name) })
	if len(tasks) != 1 {
		t.Fatalf("%d containers run, want 1: %+v", len(tasks), tasks)
	}
	want, err := os.Stat(filepath.Join("/run/netns", netns))
	d.ok(err)
	got, err := os.Stat(filepath.Join("/proc", strconv.Itoa(tasks[0].PID), "ns/net"))
	d.ok(err)
	if !os.SameFile(want, got) {
		t.Error("the container stands in another network namespace than its agent")
	}
}
