package fakedriver

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
)

// Killed is the panic of a kill point.
type Killed struct{ Point int }

// Driver is one agent's connection to a Runtime. It implements workload.Driver.
type Driver struct {
	r *Runtime
	// killAt is the kill point to die at: every changing call has one before it and one after it, counted from 1. 0: never.
	killAt int64
	points atomic.Int64
	// Slow holds every Pull until the channel gives a value or closes. nil: at once.
	Slow chan struct{}
}

var _ workload.Driver = (*Driver)(nil)

// Connect makes a Driver that dies at kill point killAt.
func (r *Runtime) Connect(killAt int) *Driver { return &Driver{r: r, killAt: int64(killAt)} }

// Points is how many kill points were passed.
func (d *Driver) Points() int { return int(d.points.Load()) }

func (d *Driver) point() {
	if n := d.points.Add(1); n == d.killAt {
		panic(Killed{int(n)})
	}
}

// change runs one changing call between its kill points.
func (d *Driver) change(ctx context.Context, what string, f func() error) error {
	d.point()
	err := ctx.Err()
	if err == nil {
		d.r.mu.Lock()
		if err = d.r.down; err == nil {
			d.r.calls = append(d.r.calls, what)
			err = f()
		}
		d.r.mu.Unlock()
	}
	d.point()
	d.r.notify()
	return err
}

// List implements workload.Inspector.
func (d *Driver) List(ctx context.Context) ([]workload.Container, error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.down != nil {
		return nil, fmt.Errorf("list: %w", d.r.down)
	}
	return d.r.list(), ctx.Err()
}

// HasImage implements workload.Images.
func (d *Driver) HasImage(ctx context.Context, ref string) (bool, error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.down != nil {
		return false, fmt.Errorf("image %s: %w", ref, d.r.down)
	}
	return d.r.images[ref], ctx.Err()
}

// Pull implements workload.Images.
func (d *Driver) Pull(ctx context.Context, ref string) error {
	if d.Slow != nil {
		select {
		case <-d.Slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.change(ctx, "pull "+ref, func() error {
		d.r.pulls[ref]++
		err, ok := d.r.registry[ref]
		if !ok {
			return fmt.Errorf("pull %s: registry is not reachable", ref)
		}
		if err != nil {
			return fmt.Errorf("pull %s: %w", ref, err)
		}
		d.r.images[ref] = true
		return nil
	})
}

// Create implements workload.Lifecycle.
func (d *Driver) Create(ctx context.Context, s workload.Spec) error {
	return d.change(ctx, "create "+s.ID, func() error {
		if d.r.containers[s.ID] != nil {
			return nil
		}
		if !d.r.images[s.C.Image] {
			return fmt.Errorf("create %s: %w", s.ID, workload.ErrImageMissing)
		}
		d.r.specs[s.ID] = s
		d.r.containers[s.ID] = &workload.Container{ID: s.ID, UID: s.UID, Name: s.C.Name, Object: s.Object, RunHash: s.RunHash,
			Image: s.C.Image, Grace: s.Grace, Recovery: s.Recovery}
		return nil
	})
}

// Start implements workload.Lifecycle.
func (d *Driver) Start(ctx context.Context, s workload.Spec, run workload.Run, secrets []workload.SecretEnv) error {
	id := s.ID
	return d.change(ctx, "start "+id, func() error { return d.r.start(id, run, secrets) })
}

// Stop implements workload.Lifecycle.
func (d *Driver) Stop(ctx context.Context, id string, _ time.Duration) error {
	return d.change(ctx, "stop "+id, func() error {
		if c := d.r.containers[id]; c != nil {
			c.State = workload.Made
		}
		return nil
	})
}

// Remove implements workload.Lifecycle.
func (d *Driver) Remove(ctx context.Context, id string) error {
	return d.change(ctx, "remove "+id, func() error {
		delete(d.r.containers, id)
		delete(d.r.specs, id)
		return nil
	})
}

// Forget implements workload.Lifecycle.
func (d *Driver) Forget(ctx context.Context, uid string) error {
	return d.change(ctx, "forget "+uid, func() error { d.r.forgetTokens(uid); return nil })
}

// Exec implements workload.Inspector.
func (d *Driver) Exec(ctx context.Context, id string, _ []string, _ time.Duration) (int, error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	c := d.r.containers[id]
	if d.r.down != nil {
		return 0, d.r.down
	}
	if c == nil || c.State != workload.Running {
		return 0, fmt.Errorf("exec in %s: not running", id)
	}
	return d.r.probes[c.Name], ctx.Err()
}

// Logs implements workload.Inspector: one line that names what was asked for.
func (d *Driver) Logs(_ context.Context, uid, name string, _ workload.LogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("log of " + uid + "/" + name + "\n")), nil
}

// Watch implements workload.Inspector.
func (d *Driver) Watch(ctx context.Context, changed func()) error {
	d.r.mu.Lock()
	d.r.watchers++
	n := d.r.watchers
	d.r.changed[n] = changed
	d.r.mu.Unlock()
	changed()
	<-ctx.Done()
	d.r.mu.Lock()
	delete(d.r.changed, n)
	d.r.mu.Unlock()
	return ctx.Err()
}
