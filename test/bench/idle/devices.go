package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/agent/enroll"
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/link/httplink"
	"github.com/drover-fleet/drover/agent/workload/fakedriver"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/test/lab"
)

// image is pinned, so that nobody asks a registry.
const image = "127.0.0.1:1/app@sha256:" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// fleet is all devices.
type fleet struct {
	cancel   context.CancelFunc
	group    sync.WaitGroup
	runtimes []*fakedriver.Runtime
}

func (f *fleet) stop() {
	f.cancel()
	f.group.Wait()
}

func (f *fleet) count() int { return len(f.runtimes) }

func (f *fleet) running() (n int) {
	for _, r := range f.runtimes {
		n += r.Running("main")
	}
	return n
}

// startDevices enrolls and starts them, a few at a time as boards come up after a power cut.
func startDevices(ctx context.Context, hub *lab.Fleet, n int) (*fleet, error) {
	file, err := hub.Token(ctx, "--uses", fmt.Sprint(n))
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{cancel: cancel}
	token := wire.Secret(strings.TrimSpace(string(b)))
	var enrolled sync.WaitGroup
	errs := make([]error, n)
	atOnce := make(chan struct{}, 8)
	for i := range n {
		r := fakedriver.New(func() int64 { return time.Now().UnixNano() })
		r.AddImage(image)
		f.runtimes = append(f.runtimes, r)
		d := device{name: fmt.Sprintf("pi-%03d", i), dir: hub.Path(fmt.Sprintf("pi-%03d", i)), runtime: r, token: token}
		for k := range hub.Members {
			d.hubs = append(d.hubs, "https://"+hub.Members[(i+k)%len(hub.Members)].API)
		}
		enrolled.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			errs[i] = d.start(ctx, &f.group)
		})
	}
	enrolled.Wait()
	if err := errors.Join(errs...); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

type device struct {
	name, dir string
	hubs      []string
	token     wire.Secret
	runtime   *fakedriver.Runtime
}

// start enrolls the device and starts agent and link, which run until ctx ends.
func (d *device) start(ctx context.Context, group *sync.WaitGroup) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	keeper, err := enroll.Open(d.dir, log)
	if err != nil {
		return err
	}
	facts := wire.Facts{Platform: "linux/arm64/v8", CPUs: 4, Memory: 4 << 30, BootID: d.runtime.BootID(), Serial: "s-" + d.name}
	booted := time.Now()
	a, err := agent.New(agent.Config{
		Device: d.name, Dir: d.dir, Version: "bench", BootID: facts.BootID, Driver: d.runtime.Connect(0), Facts: facts,
		Clock:  func() (time.Duration, time.Time) { return time.Since(booted), time.Now() },
		Random: rand.Int64N, Log: log, Unseal: func(s wire.Sealed) ([]byte, error) { return wire.Unseal(keeper.Key(), s) },
	})
	if err != nil {
		return err
	}
	e, err := enroll.New(enroll.Config{
		Keeper: keeper, Name: d.name, Hubs: d.hubs, Token: func() (wire.Secret, error) { return d.token, nil },
		Facts: func() wire.Facts { return facts }, Random: rand.Int64N, Logger: log,
	})
	if err != nil {
		return err
	}
	id, err := e.Enroll(ctx)
	if err != nil {
		return fmt.Errorf("enroll %s: %w", d.name, err)
	}
	l, err := d.link(keeper, a, id, log)
	if err != nil {
		return err
	}
	a.Attach(l)
	group.Go(func() { _ = a.Run(ctx) }) // both end with ctx only
	group.Go(func() { _ = l.Run(ctx) })
	return nil
}

func (d *device) link(keeper *enroll.Keeper, a *agent.Agent, id enroll.Identity, log *slog.Logger) (link.Link, error) {
	session := uint64(0)
	var mu sync.Mutex
	return link.New(link.Config{
		Source: a, Sink: a, ClusterID: id.ClusterID, Device: id.Device, Roots: keeper.Roots, Now: time.Now, Endpoints: d.hubs,
		Transport: &httplink.Transport{Identity: httplink.Identity{Certificate: keeper.Certificate, Roots: httplink.Pinned(keeper.Roots), Now: time.Now}},
		Learn:     keeper.Learn,
		NextSession: func(above uint64) (uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			session = max(session, above) + 1
			return session, nil
		},
		Random: rand.Int64N, Logger: log,
	})
}
