package ctrd

import (
	"maps"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/containers"

	"github.com/drover-fleet/drover/agent/workload"
)

// Labels of our containers.
const (
	prefix       = "fleet.drover.dev/"
	labelDevice  = prefix + "device"
	labelUID     = prefix + "uid"
	labelName    = prefix + "container"
	labelObject  = prefix + "object"
	labelRunHash = prefix + "run-hash"
	labelGrace   = prefix + "grace"
	// Of the last start; written before the process is made.
	labelRun      = prefix + "run"
	labelRunBoot  = prefix + "run-boot"
	labelRunSince = prefix + "run-since-boot"
	labelRunWall  = prefix + "run-wall"
	// The run that the kernel killed for its memory.
	labelOOM = prefix + "oom-run"

	extRecovery = prefix + "recovery"
)

func labelsOf(device string, s workload.Spec) map[string]string {
	return map[string]string{labelDevice: device, labelUID: s.UID, labelName: s.C.Name, labelObject: s.Object,
		labelRunHash: s.RunHash, labelGrace: s.Grace.String()}
}

// withRun gives labels with the start written in.
func withRun(labels map[string]string, r workload.Run) map[string]string {
	out := maps.Clone(labels)
	out[labelRun] = strconv.FormatUint(uint64(r.Number), 10)
	out[labelRunBoot] = r.BootID
	out[labelRunSince] = strconv.FormatInt(int64(r.Boot), 10)
	out[labelRunWall] = strconv.FormatInt(r.Wall, 10)
	return out
}

// containerOf reads a record. Labels that cannot be read count as absent: a container is never lost for a bad label.
func containerOf(c containers.Container) workload.Container {
	l := c.Labels
	grace, err := time.ParseDuration(l[labelGrace])
	if err != nil {
		grace = 30 * time.Second
	}
	out := workload.Container{ID: c.ID, UID: l[labelUID], Name: l[labelName], Object: l[labelObject], RunHash: l[labelRunHash],
		Image: c.Image, Grace: grace, Run: runOf(l)}
	if ext := c.Extensions[extRecovery]; ext != nil {
		out.Recovery = ext.GetValue()
	}
	return out
}

func runOf(l map[string]string) workload.Run {
	return workload.Run{Number: uint32(number(l[labelRun])), BootID: l[labelRunBoot],
		Boot: time.Duration(number(l[labelRunSince])), Wall: number(l[labelRunWall])}
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
