package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/agent/enroll"
	"github.com/drover-fleet/drover/agent/link"
	"github.com/drover-fleet/drover/agent/link/httplink"
	"github.com/drover-fleet/drover/agent/sysinfo"
	"github.com/drover-fleet/drover/agent/workload/ctrd"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
)

// logCheck is how often the sizes of logs are looked at: a container that writes as fast as it can must not fill the disk in
// between, and a look costs a few system calls.
const logCheck = time.Second

// serve wires the agent together and runs it until ctx ends. Only what a person must mend ends it earlier: a directory that
// cannot be used, flags that make no sense.
func serve(ctx context.Context, o options, log *slog.Logger) error {
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return err
	}
	locked, err := lock(ctx, o.data)
	if err != nil {
		return err
	}
	defer locked.Close()
	keeper, err := enroll.Open(o.data, log)
	if err != nil {
		return err
	}
	device, err := deviceName(o, keeper, log)
	if err != nil {
		return err
	}
	if err := checkToken(o, keeper); err != nil {
		return err
	}
	facts := sysinfo.Facts(sysinfo.Options{DataDir: o.data, BootIDFile: o.bootIDFile, Version: version})
	if o.platform != "" {
		facts.Platform = o.platform
	}
	if facts.BootID == "" {
		facts.BootID = "unknown"
	}
	driver, err := newDriver(o, device, facts, log)
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close() }() // ends a connection, nothing else
	a, err := agent.New(agent.Config{
		Device: device, Dir: o.data, Version: version, BootID: facts.BootID, Driver: driver, Facts: facts, Clock: clock, Random: random, Log: log,
		Unseal: func(s wire.Sealed) ([]byte, error) { return wire.Unseal(keeper.Key(), s) },
	})
	if err != nil {
		return err
	}
	log.Info("agent starts", "version", version, "device", device, "platform", facts.Platform)

	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others.Go(func() { driver.RotateLogs(ctx, logCheck) })
	others.Go(func() { tellRuntime(ctx, driver, a, facts) })
	others.Go(func() {
		h := hub{o: o, device: device, keeper: keeper, agent: a, facts: facts, log: log}
		if err := h.run(ctx); err != nil && ctx.Err() == nil {
			log.Error("no link to a hub; what runs goes on", "err", err)
		}
	})
	return a.Run(ctx)
}

// deviceName: an enrolled device keeps the name that it was enrolled with.
func deviceName(o options, k *enroll.Keeper, log *slog.Logger) (string, error) {
	if id, ok := k.Identity(); ok {
		if o.name != "" && o.name != id.Device {
			log.Warn("the device is enrolled under another name, which it keeps", "name", id.Device, "asked", o.name)
		}
		return id.Device, nil
	}
	if o.name != "" {
		return o.name, nil
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "", errors.New("this board has no host name: give it a name with --name")
	}
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	return host, nil
}

// checkToken tells early when the first enrollment cannot work.
func checkToken(o options, k *enroll.Keeper) error {
	if _, ok := k.Identity(); ok || o.token == "" {
		return nil
	}
	_, err := readToken(o.token)
	return err
}

// readToken takes a token as it is, or the file that holds it.
func readToken(s string) (wire.Secret, error) {
	if _, err := wire.ParseToken(s); err == nil {
		return wire.Secret(s), nil
	}
	if strings.HasPrefix(s, "drover1.") {
		_, err := wire.ParseToken(s)
		return "", fmt.Errorf("--token: %w", err)
	}
	b, err := os.ReadFile(s)
	if err != nil {
		return "", fmt.Errorf("--token is neither a join token nor a file that holds one: %w", err)
	}
	if len(b) > 4096 {
		return "", fmt.Errorf("--token %s: %d bytes are no join token", s, len(b))
	}
	text := strings.TrimSpace(string(b))
	if _, err := wire.ParseToken(text); err != nil {
		return "", fmt.Errorf("--token %s: %w", s, err)
	}
	return wire.Secret(text), nil
}

func newDriver(o options, device string, facts wire.Facts, log *slog.Logger) (*ctrd.Driver, error) {
	own, err := os.Executable()
	if err != nil {
		log.Warn("own program not found: containers with secrets will not start", "err", err)
		own = ""
	}
	plain, err := readRegistries(o.registries)
	if err != nil {
		return nil, err
	}
	return ctrd.New(ctrd.Config{Socket: o.socket, Device: device, Dir: o.data, Run: o.run, Snapshotter: o.snapshotter, Platform: facts.Platform,
		PlainHTTP: plain, InitBinary: own, MemoryLimit: facts.MemoryCgroup, Log: log})
}

func readRegistries(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--registries: %w", err)
	}
	defer f.Close()
	var c struct {
		PlainHTTP []string `json:"plainHTTP"`
	}
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("--registries %s: %w", file, err)
	}
	return c.PlainHTTP, nil
}

// tellRuntime adds the runtime's version to the facts once it answers.
func tellRuntime(ctx context.Context, d *ctrd.Driver, a *agent.Agent, facts wire.Facts) {
	wait := retry.Attempts{Policy: retry.Policy{Base: time.Second, Max: time.Minute}, Random: random}
	for {
		v, err := d.Version(ctx)
		if err == nil {
			facts.Runtime = v
			a.Found(facts)
			return
		}
		t := time.NewTimer(wait.Failed(err))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// hub is the way to an identity and a link.
type hub struct {
	o      options
	device string
	keeper *enroll.Keeper
	agent  *agent.Agent
	facts  wire.Facts
	log    *slog.Logger
}

// run enrolls, then keeps the link, until ctx ends.
func (h hub) run(ctx context.Context) error {
	e, err := enroll.New(enroll.Config{Keeper: h.keeper, Name: h.device, Hubs: h.o.hubs, Facts: func() wire.Facts { return h.facts },
		Token: h.token, Now: h.now, Random: random, Logger: h.log})
	if err != nil {
		return err
	}
	id, err := e.Enroll(ctx)
	if err != nil {
		return err
	}
	sessions := newSessions(h.o.data)
	l, err := link.New(link.Config{Source: h.agent, Sink: h.agent,
		Transport: &httplink.Transport{Identity: httplink.Identity{Certificate: h.keeper.Certificate, Roots: httplink.Pinned(h.keeper.Roots), Now: h.now}},
		ClusterID: id.ClusterID, Device: id.Device, Roots: h.keeper.Roots, Now: h.now, Endpoints: h.o.hubs, Learned: id.Endpoints,
		Learn: h.keeper.Learn, NextSession: sessions.next, Random: random, Logger: h.log})
	if err != nil {
		return err
	}
	h.agent.Attach(l)
	var renewal sync.WaitGroup
	defer renewal.Wait()
	renewal.Go(func() { _ = e.Run(ctx) }) // ends with ctx only
	renewal.Go(func() { h.comeBack(ctx, e) })
	return l.Run(ctx)
}

// comeBack enrolls anew with the token when hubs do not know the device any more: it was deleted there. What runs goes on
// meanwhile, and without a token nothing is asked.
func (h hub) comeBack(ctx context.Context, e *enroll.Enroller) {
	pause := retry.Attempts{Policy: retry.Policy{Base: 10 * time.Second, Max: time.Hour}, Random: random}
	for turn, wait := 0, time.Second; h.o.token != ""; turn++ {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		wait = 10 * time.Second
		if s := h.agent.LinkState(); s.Connected || !fault.Is(s.Err, fault.NotFound) {
			continue
		}
		if err := e.Again(ctx, turn); err != nil {
			wait = pause.Failed(err)
			h.log.Warn("the hub does not know this device, and the token does not bring it back", "err", err)
			continue
		}
		pause.Succeeded()
		h.log.Info("enrolled again", "device", h.device)
	}
}

func (h hub) token() (wire.Secret, error) {
	if h.o.token == "" {
		return "", errors.New("the device is not enrolled: give the agent --token with a token from 'drover token create'")
	}
	return readToken(h.o.token)
}

// now is the wall clock, but never before what has certainly passed: the build, and the beginning of the certificate.
func (h hub) now() time.Time {
	now := time.Now()
	for _, floor := range []time.Time{h.keeper.Floor(), built()} {
		if now.Before(floor) {
			now = floor
		}
	}
	return now
}

// built is the time of the commit that this program was built from; zero when it is not known.
func built() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}
