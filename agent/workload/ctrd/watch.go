package ctrd

import (
	"context"
	"errors"
	"fmt"

	eventtypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/drover-fleet/drover/agent/workload"
)

// Watch implements workload.Inspector.
func (d *Driver) Watch(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ns := Namespace(d.cfg.Device)
	ch, errs := d.client.Subscribe(ctx,
		fmt.Sprintf("namespace==%s,topic~=\"^/tasks/(exit|oom|delete|paused|resumed|start)$\"", ns),
		fmt.Sprintf("namespace==%s,topic~=\"^/containers/delete$\"", ns))
	// Subscribe connects in the background; a version tells whether the daemon is there at all.
	if _, err := d.Version(ctx); err != nil {
		return err
	}
	changed()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-errs:
			if err == nil {
				err = errors.New("the stream of events ended")
			}
			return fmt.Errorf("watch: %w: %w", workload.ErrUnavailable, err)
		case e := <-ch:
			d.noteOOM(ctx, e)
			changed()
		}
	}
}

// noteOOM writes on the container that the kernel killed this run: the exit code alone does not tell.
func (d *Driver) noteOOM(ctx context.Context, e *events.Envelope) {
	if e == nil || e.Topic != "/tasks/oom" {
		return
	}
	var oom eventtypes.TaskOOM
	if err := typeurl.UnmarshalTo(e.Event, &oom); err != nil {
		d.cfg.Log.Warn("out-of-memory event", "err", err)
		return
	}
	store := d.client.ContainerService()
	c, err := store.Get(ctx, oom.ContainerID)
	if err == nil {
		_, err = store.Update(ctx, containers.Container{ID: c.ID, Labels: map[string]string{labelOOM: c.Labels[labelRun]}}, "labels."+labelOOM)
	}
	if err != nil {
		d.cfg.Log.Warn("out-of-memory event", "id", oom.ContainerID, "err", err)
	}
}
