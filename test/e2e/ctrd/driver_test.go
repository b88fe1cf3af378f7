package ctrd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/ctrd"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
	machine "github.com/drover-fleet/drover/test/lab"
)

// device is one device with a driver of its own on the shared daemon.
type device struct {
	*ctrd.Driver
	t    *testing.T
	ctx  context.Context
	name string
	dir  string
}

func newDevice(t *testing.T) *device {
	t.Helper()
	d := &device{t: t, name: strings.ToLower(t.Name()), dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	d.ctx = ctx
	d.connect()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cs, err := d.List(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, c := range cs {
			if err := d.Remove(ctx, c.ID); err != nil {
				t.Error(err)
			}
		}
		if err := machine.UnmountBelow(d.dir); err != nil {
			t.Error(err)
		}
		_ = d.Close()
	})
	return d
}

// connect makes a new driver, as a new agent would.
func (d *device) connect() {
	d.t.Helper()
	drv, err := ctrd.New(ctrd.Config{Socket: lab.daemon.Socket(), Device: d.name, Dir: d.dir, Run: filepath.Join(d.dir, "run"), InitBinary: lab.app, MemoryLimit: true})
	if err != nil {
		d.t.Fatal(err)
	}
	if d.Driver != nil {
		_ = d.Close()
	}
	d.Driver = drv
}

func (d *device) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) pull(i int) string {
	d.t.Helper()
	d.ok(d.Pull(d.ctx, lab.refs[i]))
	return lab.refs[i]
}

func spec(uid, image string, args ...string) workload.Spec {
	return workload.Spec{ID: uid + "-c1", UID: uid, Object: "default/" + uid, RunHash: "h1", Hostname: "board", Grace: 5 * time.Second,
		C: wire.Container{Name: "main", Image: image, Args: args}, Recovery: []byte("recovery of " + uid)}
}

func run(n uint32) workload.Run {
	return workload.Run{Number: n, BootID: "b1", Boot: time.Minute, Wall: time.Now().UnixNano()}
}

func (d *device) one() workload.Container {
	d.t.Helper()
	cs, err := d.List(d.ctx)
	d.ok(err)
	if len(cs) != 1 {
		d.t.Fatalf("got %d containers, want 1: %+v", len(cs), cs)
	}
	return cs[0]
}

// until waits for events of the runtime until the container is as wanted.
func (d *device) until(what string, is func(workload.Container) bool) workload.Container {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, 30*time.Second)
	defer cancel()
	changed := make(chan struct{}, 1)
	go func() {
		_ = d.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	for {
		if c := d.one(); is(c) {
			return c
		}
		select {
		case <-changed:
		case <-time.After(500 * time.Millisecond): // a label written after the event
		case <-ctx.Done():
			d.t.Fatalf("container does not become %s: %+v", what, d.one())
		}
	}
}

func (d *device) log(o workload.LogOptions) string {
	d.t.Helper()
	r, err := d.Logs(d.ctx, d.one().UID, "main", o)
	d.ok(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	d.ok(err)
	return string(b)
}

// logged waits until the log has the text.
func (d *device) logged(text string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, 20*time.Second)
	defer cancel()
	r, err := d.Logs(ctx, d.one().UID, "main", workload.LogOptions{Follow: true, Tail: -1})
	d.ok(err)
	defer r.Close()
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), text) {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			d.t.Fatalf("log: got %q, want %q in it", got.String(), text)
		}
	}
}

func TestEveryCallMayBeRepeated(t *testing.T) {
	d := newDevice(t)
	img := d.pull(0)
	d.pull(0)
	s := spec("uid1", img)
	for range 2 {
		d.ok(d.Create(d.ctx, s))
	}
	if c := d.one(); c.State != workload.Made || c.UID != "uid1" || c.RunHash != "h1" || string(c.Recovery) != "recovery of uid1" || c.Grace != s.Grace {
		t.Fatalf("made: got %+v", c)
	}
	for range 2 {
		d.ok(d.Start(d.ctx, s, run(1), nil))
	}
	c := d.one()
	if c.State != workload.Running || c.Run.Number != 1 || c.Run.BootID != "b1" || c.Run.Boot != time.Minute {
		t.Fatalf("started: got %+v", c)
	}
	d.logged("running")
	for range 2 {
		d.ok(d.Stop(d.ctx, s.ID, 5*time.Second))
	}
	if c := d.one(); c.State != workload.Made || c.Run.Number != 1 {
		t.Fatalf("stopped: got %+v", c)
	}
	if got := d.log(workload.LogOptions{Tail: 1}); got != "ending\n" {
		t.Errorf("log ends with %q, want ending: it was not asked to end", got)
	}
	for range 2 {
		d.ok(d.Remove(d.ctx, s.ID))
		d.ok(d.Forget(d.ctx, "uid1"))
	}
	if cs, err := d.List(d.ctx); err != nil || len(cs) != 0 {
		t.Errorf("removed: got %v, %v", cs, err)
	}
}

func TestExitCodesAreKeptForAnAgentThatWasAway(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0), "exit", "7")
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	d.until("exited", func(c workload.Container) bool { return c.State == workload.Exited })
	d.connect() // another life of the agent
	c := d.one()
	if c.State != workload.Exited || c.ExitCode != 7 || c.ExitedAt == 0 {
		t.Fatalf("got %+v, want exit code 7 with a time", c)
	}
	d.ok(d.Start(d.ctx, s, run(2), nil))
	if c := d.until("exited again", func(c workload.Container) bool { return c.State == workload.Exited && c.Run.Number == 2 }); c.ExitCode != 7 {
		t.Errorf("second run: got %+v", c)
	}
}

func TestAStubbornProcessIsKilledAfterItsGrace(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0), "stubborn")
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	d.logged("stubborn")
	began := time.Now()
	d.ok(d.Stop(d.ctx, s.ID, time.Second))
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Errorf("took %s, want a second and little more", took)
	}
	if c := d.one(); c.State != workload.Made {
		t.Errorf("got %+v, want no process", c)
	}
}

func TestMemoryAboveTheLimitIsOOMKilled(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0), "eat")
	s.C.Memory = 32 << 20
	d.ok(d.Create(d.ctx, s))
	watching := make(chan struct{})
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	go func() {
		_ = d.Watch(ctx, func() {
			select {
			case watching <- struct{}{}:
			default:
			}
		})
	}()
	<-watching
	d.ok(d.Start(d.ctx, s, run(1), nil))
	c := d.until("OOM killed", func(c workload.Container) bool { return c.State == workload.Exited && c.OOM })
	if c.ExitCode != 137 {
		t.Errorf("got exit code %d, want 137", c.ExitCode)
	}
}

func TestPausedByHandIsResumedByStart(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0))
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	ctr(t, d.name, "task", "pause", s.ID)
	if c := d.one(); c.State != workload.Paused {
		t.Fatalf("got %v, want Paused", c.State)
	}
	d.ok(d.Start(d.ctx, s, run(1), nil))
	if c := d.one(); c.State != workload.Running {
		t.Errorf("got %v, want Running", c.State)
	}
}

func TestSecretsReachTheProcessAndAreInNoFile(t *testing.T) {
	d := newDevice(t)
	const value = "planted-4f1d9c7e-secret"
	s := spec("uid1", d.pull(0), "env", "TOKEN", "PLAIN", "FROM_IMAGE")
	s.C.Env = []wire.Env{{Name: "PLAIN", Value: "p"}, {Name: "TOKEN", Secret: &wire.SecretRef{Name: "default/s/token"}}}
	d.ok(d.Create(d.ctx, s))
	secrets := []workload.SecretEnv{{Name: "TOKEN", Value: []byte(value)}}
	d.ok(d.Start(d.ctx, s, run(1), secrets))
	d.logged("TOKEN=" + value + "\nPLAIN=p\nFROM_IMAGE=yes\nrunning")
	pid := d.one()
	d.ok(d.Start(d.ctx, s, run(1), secrets)) // a new life makes sure
	if again := d.one(); again.Run != pid.Run || again.State != workload.Running {
		t.Errorf("got %+v, want it untouched", again)
	}
	log := filepath.Join(d.dir, "logs", "uid1", "main.log") // where the app itself printed it
	for _, dir := range []string{d.dir, lab.dir} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || path == log {
				return nil // what vanishes while we walk holds nothing
			}
			b, err := os.ReadFile(path)
			if err == nil && bytes.Contains(b, []byte(value)) {
				t.Errorf("the secret is in %s", path)
			}
			return nil
		})
		d.ok(err)
	}
}

func TestACrashBeforeTheSecretsWereHandedOverIsMadeGood(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0), "env", "TOKEN")
	s.C.Env = []wire.Env{{Name: "TOKEN", Secret: &wire.SecretRef{Name: "default/s/token"}}}
	d.ok(d.Create(d.ctx, s))
	ctx, cancel := context.WithTimeout(d.ctx, 3*time.Second) // a start that ends before it delivered: its pipe is taken away
	defer cancel()
	pipe := filepath.Join(d.dir, "pipes", s.ID)
	d.ok(os.MkdirAll(filepath.Dir(pipe), 0o700))
	err := d.Start(ctx, s, run(1), []workload.SecretEnv{{Name: "BAD", Value: []byte("nul\x00byte")}})
	if err == nil {
		t.Fatal("a value with a NUL byte was delivered")
	}
	if c := d.one(); c.State != workload.Running {
		t.Fatalf("got %v, want the process waiting", c.State)
	}
	d.connect()
	d.ok(d.Start(d.ctx, s, run(1), []workload.SecretEnv{{Name: "TOKEN", Value: []byte("v")}}))
	d.logged("TOKEN=v\nrunning")
}

func TestAnImportedImageIsFoundByItsDigest(t *testing.T) {
	d := newDevice(t)
	if ok, err := d.HasImage(d.ctx, lab.refs[1]); ok || err != nil {
		t.Fatalf("before: got %v, %v", ok, err)
	}
	tag, err := name.NewTag("by.hand/app:any")
	d.ok(err)
	file := filepath.Join(d.dir, "image.tar")
	d.ok(tarball.WriteToFile(file, tag, lab.images[1]))
	ctr(t, d.name, "images", "import", file)
	// A docker-style tar is given another manifest by the import; ask for the one that it has.
	out := ctr(t, d.name, "images", "ls")
	i := strings.Index(out, "sha256:")
	if i < 0 {
		t.Fatalf("nothing was imported:\n%s", out)
	}
	ref := "registry.invalid/app@" + out[i:i+7+64]
	if ok, err := d.HasImage(d.ctx, ref); !ok || err != nil {
		t.Fatalf("after: got %v, %v", ok, err)
	}
	s := spec("uid1", ref)
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
}

func TestAnImageWithNothingForThisPlatformSaysSo(t *testing.T) {
	d := newDevice(t)
	if err := d.Pull(d.ctx, lab.refs[2]); !errors.Is(err, workload.ErrNoPlatform) {
		t.Errorf("got %v, want ErrNoPlatform", err)
	}
	if ok, err := d.HasImage(d.ctx, lab.refs[2]); ok {
		t.Errorf("it counts as present: %v", err)
	}
}

func TestAMissingImageIsNoStart(t *testing.T) {
	d := newDevice(t)
	if err := d.Create(d.ctx, spec("uid1", lab.refs[0])); !errors.Is(err, workload.ErrImageMissing) {
		t.Errorf("create: got %v, want ErrImageMissing", err)
	}
	if err := d.Pull(d.ctx, lab.host+"/app@sha256:"+strings.Repeat("0", 64)); err == nil {
		t.Error("an image that does not exist was pulled")
	}
}

func TestVolumesLiveAsLongAsTheAssignment(t *testing.T) {
	d := newDevice(t)
	host := filepath.Join(t.TempDir(), "made")
	s := spec("uid1", d.pull(0), "write", "/scratch/x", "hello")
	s.C.Mounts = []wire.Mount{{Volume: "e", Path: "/scratch"}, {Volume: "h", Path: "/host", ReadOnly: true}}
	s.Volumes = []wire.Volume{{Name: "e"}, {Name: "h", HostPath: host, HostType: "DirectoryOrCreate"}}
	s.Grant = grant.Grant{Pool: "p", HostPaths: []string{filepath.Dir(host)}}
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	d.logged("running")
	d.ok(d.Stop(d.ctx, s.ID, time.Second))
	d.ok(d.Remove(d.ctx, s.ID))
	file := filepath.Join(d.dir, "volumes", "uid1", "e", "x")
	if b, err := os.ReadFile(file); string(b) != "hello" {
		t.Errorf("after an update the volume holds %q, %v", b, err)
	}
	d.ok(d.Forget(d.ctx, "uid1"))
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("after the removal: %v", err)
	}
	s.Volumes[1] = wire.Volume{Name: "h", HostPath: host + "/none", HostType: "Directory"}
	if err := d.Create(d.ctx, s); err == nil {
		t.Error("a missing hostPath of type Directory was accepted")
	}
}

func TestProbesRunInTheContainer(t *testing.T) {
	d := newDevice(t)
	s := spec("uid1", d.pull(0))
	d.ok(d.Create(d.ctx, s))
	d.ok(d.Start(d.ctx, s, run(1), nil))
	d.logged("running")
	for _, c := range []struct {
		command []string
		want    int
	}{{[]string{"/app", "exists", "/version"}, 0}, {[]string{"/app", "exists", "/none"}, 1}} {
		if got, err := d.Exec(d.ctx, s.ID, c.command, 10*time.Second); got != c.want || err != nil {
			t.Errorf("%v: got %d, %v; want %d", c.command, got, err, c.want)
		}
	}
	if _, err := d.Exec(d.ctx, s.ID, []string{"/app", "run"}, 300*time.Millisecond); err == nil {
		t.Error("a probe that does not end was not given up")
	}
}

func TestContainersOfOneAssignmentShareAShim(t *testing.T) {
	d := newDevice(t)
	img := d.pull(0)
	a, b := spec("uid1", img), spec("uid1", img)
	b.ID, b.C.Name = "uid1-c2", "side"
	for _, s := range []workload.Spec{a, b} {
		d.ok(d.Create(d.ctx, s))
		d.ok(d.Start(d.ctx, s, run(1), nil))
	}
	out, err := exec.Command("pgrep", "-fc", "containerd-shim-runc-v2 -namespace "+ctrd.Namespace(d.name)+" ").Output()
	if got := strings.TrimSpace(string(out)); got != "1" {
		t.Errorf("got %s shims (%v), want 1", got, err)
	}
	d.ok(d.Stop(d.ctx, a.ID, time.Second))
	cs, err := d.List(d.ctx)
	d.ok(err)
	if i := slices.IndexFunc(cs, func(c workload.Container) bool { return c.ID == b.ID }); cs[i].State != workload.Running {
		t.Errorf("stopping one ended the other: %+v", cs[i])
	}
}

// ctr is the runtime's own tool, as a person would use it.
func ctr(t *testing.T, device string, args ...string) string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"-a", lab.daemon.Socket(), "-n", ctrd.Namespace(device)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %v: %v\n%s", args, err, out)
	}
	return string(out)
}
