package ctrd

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/logfile"
)

// List implements workload.Inspector.
func (d *Driver) List(ctx context.Context) ([]workload.Container, error) {
	// Tasks first: a container removed in between is then missing as a whole, and one made in between has no process yet.
	ts, err := d.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, unavailable("list tasks", err)
	}
	cs, err := d.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%q", labelDevice, d.cfg.Device))
	if err != nil {
		return nil, unavailable("list containers", err)
	}
	byID := map[string]*task.Process{}
	for _, t := range ts.Tasks {
		byID[t.ID] = t
	}
	out := make([]workload.Container, 0, len(cs))
	for _, c := range cs {
		k := containerOf(c)
		if t := byID[c.ID]; t != nil {
			k.State, k.OOM = stateOf(t.Status), false
			if k.State == workload.Exited {
				k.ExitCode, k.ExitedAt = int32(t.ExitStatus), t.ExitedAt.AsTime().UnixNano()
				k.OOM = c.Labels[labelOOM] != "" && c.Labels[labelOOM] == c.Labels[labelRun]
			}
		}
		out = append(out, k)
	}
	return out, nil
}

// unavailable: whatever keeps a list from being whole means that nothing is known.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, workload.ErrUnavailable, err)
}

func stateOf(s task.Status) workload.State {
	switch s {
	case task.Status_RUNNING, task.Status_PAUSING:
		return workload.Running
	case task.Status_PAUSED:
		return workload.Paused
	case task.Status_STOPPED:
		return workload.Exited
	case task.Status_CREATED:
		return workload.Prepared
	}
	return workload.Prepared // unknown: its shim does not answer; a start clears it away first
}

// Logs implements workload.Inspector.
func (d *Driver) Logs(ctx context.Context, uid, name string, o workload.LogOptions) (io.ReadCloser, error) {
	return d.logs.Open(ctx, uid, name, logfile.Options{Follow: o.Follow, Tail: o.Tail, Previous: o.Previous})
}
