package ctrd

import (
	"context"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/drover-fleet/drover/agent/workload"
)

// Create implements workload.Lifecycle.
func (d *Driver) Create(ctx context.Context, s workload.Spec) error {
	if _, err := d.client.ContainerService().Get(ctx, s.ID); err == nil {
		return nil // made by an earlier try: the record is written last
	} else if !errdefs.IsNotFound(err) {
		return wrap("create "+s.ID, err)
	}
	img, err := d.client.GetImage(ctx, s.C.Image)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("create %s: %w: %s", s.ID, workload.ErrImageMissing, s.C.Image)
	}
	if err != nil {
		return wrap("create "+s.ID, err)
	}
	if ok, err := img.IsUnpacked(ctx, d.cfg.Snapshotter); err != nil || !ok {
		return fmt.Errorf("create %s: %w: %s is not unpacked", s.ID, workload.ErrImageMissing, s.C.Image)
	}
	// A writable layer without a record is what a crash left.
	if err := d.client.SnapshotService(d.cfg.Snapshotter).Remove(ctx, s.ID); err != nil && !errdefs.IsNotFound(err) {
		return wrap("create "+s.ID+": old layer", err)
	}
	opts, err := d.specOptions(s, img)
	if err != nil {
		return fmt.Errorf("create %s: %w", s.ID, err)
	}
	_, err = d.client.NewContainer(ctx, s.ID,
		containerd.WithImage(img),
		containerd.WithSnapshotter(d.cfg.Snapshotter),
		containerd.WithNewSnapshot(s.ID, img),
		containerd.WithContainerLabels(labelsOf(d.cfg.Device, s)),
		containerd.WithImageStopSignal(img, "SIGTERM"),
		withRecovery(s.Recovery),
		containerd.WithRuntime(runtimeName, nil),
		containerd.WithNewSpec(opts...),
	)
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return wrap("create "+s.ID, err)
	}
	return nil
}

func withRecovery(b []byte) containerd.NewContainerOpts {
	return func(_ context.Context, _ *containerd.Client, c *containers.Container) error {
		if c.Extensions == nil {
			c.Extensions = map[string]typeurlAny{}
		}
		c.Extensions[extRecovery] = &anypb.Any{TypeUrl: extRecovery, Value: b}
		return nil
	}
}

// Remove implements workload.Lifecycle.
func (d *Driver) Remove(ctx context.Context, id string) error {
	c, err := d.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return d.cleanUp(ctx, id)
	}
	if err != nil {
		return wrap("remove "+id, err)
	}
	if err := d.dropTask(ctx, c); err != nil {
		return wrap("remove "+id, err)
	}
	// Before the record: what has none is not found again. A start would make it anew.
	if err := d.removePipe(id); err != nil {
		return err
	}
	if err := c.Delete(ctx, containerd.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return wrap("remove "+id, err)
	}
	return d.cleanUp(ctx, id)
}

// cleanUp removes what a crash between two steps of a removal may have left.
func (d *Driver) cleanUp(ctx context.Context, id string) error {
	if err := d.client.SnapshotService(d.cfg.Snapshotter).Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return wrap("remove "+id+": layer", err)
	}
	return d.removePipe(id)
}

// dropTask kills and deletes whatever process the container has.
func (d *Driver) dropTask(ctx context.Context, c containerd.Container) error {
	t, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := t.Delete(ctx, containerd.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete process: %w", err)
	}
	return nil
}
