package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/ctrd"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// The child is an agent in a process of its own, which SIGKILLs itself before or after a call to containerd.
const (
	childEnv  = "DROVER_E2E_CHILD"  // socket
	dirEnv    = "DROVER_E2E_DIR"    // of the agent
	deviceEnv = "DROVER_E2E_DEVICE" //
	imagesEnv = "DROVER_E2E_IMAGES" // two references, separated by a space
	killEnv   = "DROVER_E2E_KILL"   // point to die at, 0: never
	fromEnv   = "DROVER_E2E_FROM"   // first step
	initEnv   = "DROVER_E2E_INIT"   // the init for secrets
)

// points counts calls that change something, before and after each, and kills at one of them.
type points struct {
	at int64
	n  atomic.Int64
}

func (p *points) pass() {
	if p.n.Add(1) == p.at {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// changes are the methods by which containerd is changed; the rest only reads.
func changes(method string) bool {
	_, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, p := range []string{"Create", "Update", "Delete", "Start", "Kill", "Prepare", "View", "Commit", "Remove", "Apply", "AddResource", "Resume"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func (p *points) unary(ctx context.Context, method string, rq, rs any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !changes(method) {
		return next(ctx, method, rq, rs, cc, opts...)
	}
	p.pass()
	err := next(ctx, method, rq, rs, cc, opts...)
	p.pass()
	return err
}

// hub stands in for a link: it says what is desired and hears reports.
type hub struct {
	reports chan wire.Report
	wants   chan wire.BodiesRequest
}

func (h *hub) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (h *hub) Report(r wire.Report) { replace(h.reports, r) }

func (h *hub) Want(r wire.BodiesRequest) { replace(h.wants, r) }

func replace[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}

func (h *hub) Token(context.Context, wire.TokenRequest) (wire.TokenReply, error) {
	return wire.TokenReply{}, fault.Unreachable.Errorf("no tokens here")
}

func (h *hub) OpenStream(context.Context, string, io.Reader) error {
	return errors.New("no streams here")
}

// step gives what is desired after n changes: two made, one updated, the other deleted.
func step(n int, refs []string) (wire.Desired, wire.BodiesReply) {
	d := wire.Desired{Device: os.Getenv(deviceEnv), Position: wire.Position{ClusterID: "c", Epoch: 1, EpochID: "e", Revision: 1<<40 + uint64(n)}}
	var b wire.BodiesReply
	add := func(uid, ref string, secret bool) {
		a := wire.Assignment{UID: uid, Namespace: "default", Name: uid, Workload: uid, Revision: uid + "-1", GraceSecs: 5,
			Containers: []wire.Container{{Name: "main", Image: ref, ImageName: ref}}}
		e := wire.Entry{UID: uid}
		if secret {
			s := wire.SecretRef{Name: "default/s/k", ID: wire.HashOf([]byte("s"))}
			a.Containers[0].Env = []wire.Env{{Name: "TOKEN", Secret: &s}}
			e.Secrets = []wire.SecretRef{s}
			b.Secrets = append(b.Secrets, wire.Sealed{Ref: s, Ephemeral: []byte{4}, Ciphertext: []byte("x")})
		}
		enc, err := wire.Encode(a)
		if err != nil {
			panic(err)
		}
		e.SpecHash = wire.HashOf(enc)
		d.Assignments, b.Bodies = append(d.Assignments, e), append(b.Bodies, enc)
	}
	add("cam", refs[min(n/2, 1)], true)
	if n < 3 {
		add("web", refs[0], false)
	} else {
		d.Tombstones = []wire.Tombstone{{UID: "web", Name: "default/web", Revision: 1<<40 + 3}}
	}
	var err error
	if d.BundleHash, err = d.ComputeBundleHash(); err != nil {
		panic(err)
	}
	return d, b
}

// child runs the agent through the steps and exits 0; it prints how many points it passed.
func child() {
	if err := runChild(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild() error {
	kill, err := strconv.ParseInt(os.Getenv(killEnv), 10, 64)
	if err != nil {
		return err
	}
	p := &points{at: kill}
	drv, err := ctrd.New(ctrd.Config{Socket: os.Getenv(childEnv), Device: os.Getenv(deviceEnv), Dir: os.Getenv(dirEnv), MemoryLimit: true,
		InitBinary:    os.Getenv(initEnv),
		ClientOptions: []containerd.Opt{containerd.WithExtraDialOpts([]grpc.DialOption{grpc.WithChainUnaryInterceptor(p.unary)})}})
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{Device: os.Getenv(deviceEnv), Dir: os.Getenv(dirEnv), BootID: "b", Driver: drv, Random: rand.Int64N,
		Unseal: func(s wire.Sealed) ([]byte, error) { return s.Ciphertext, nil },
		Clock:  func() (time.Duration, time.Time) { return time.Since(time.Unix(0, 0)), time.Now() }})
	if err != nil {
		return err
	}
	h := &hub{reports: make(chan wire.Report, 1), wants: make(chan wire.BodiesRequest, 1)}
	a.Attach(h)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	from, err := strconv.Atoi(os.Getenv(fromEnv))
	if err != nil {
		return err
	}
	for n := from; n <= 3; n++ {
		if err := h.reach(ctx, a, n); err != nil {
			return err
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Println(p.n.Load())
	return nil
}

// reach tells the agent step n, and waits until it reports that all of it runs.
func (h *hub) reach(ctx context.Context, a *agent.Agent, n int) error {
	d, bodies := step(n, strings.Fields(os.Getenv(imagesEnv)))
	payload, err := wire.Encode(d)
	if err != nil {
		return err
	}
	a.Desired(wire.Signed{Payload: payload})
	var last wire.Report
	for {
		select {
		case <-h.wants:
			a.Bodies(bodies)
		case last = <-h.reports:
			if reached(d, last) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("step %d is not reached: %+v", n, last)
		}
	}
}

func reached(d wire.Desired, r wire.Report) bool {
	if r.Held != d.Position || len(r.Gone) != len(d.Tombstones) || len(r.Statuses) != len(d.Assignments) {
		return false
	}
	for i, s := range r.Statuses {
		if s.Phase != "Running" || !s.Ready || !s.SpecHash.Equal(d.Assignments[i].SpecHash) {
			return false
		}
	}
	return true
}

// F02 on a real containerd: the agent's process is killed by SIGKILL before and after every call that changes something. Two copies of
// one assignment never exist, and the next life ends where it should.
func TestTwoCopiesNeverExistWhereverTheAgentIsKilled(t *testing.T) {
	const shards = 3
	for s := range shards {
		t.Run(fmt.Sprint("shard", s), func(t *testing.T) {
			t.Parallel()
			for kill := 1 + s; ; kill += shards {
				if !killAt(t, kill) {
					if kill < 40 {
						t.Fatalf("only %d points were passed: the steps do not do what they should", kill)
					}
					return
				}
				if t.Failed() || kill > 400 {
					t.Fatalf("stopped at point %d", kill)
				}
			}
		})
	}
}

// killAt runs one device's life with a kill at one point, and tells whether the point was reached.
func killAt(t *testing.T, kill int) bool {
	t.Helper()
	dir, err := os.MkdirTemp(lab.dir, "k")
	if err != nil {
		t.Fatal(err)
	}
	device := fmt.Sprintf("kill-%d", kill)
	drv, err := ctrd.New(ctrd.Config{Socket: lab.daemon.Socket(), Device: device, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = drv.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	life := func(kill, from int) (killed bool) {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+lab.daemon.Socket(), dirEnv+"="+dir, deviceEnv+"="+device,
			imagesEnv+"="+lab.refs[0]+" "+lab.refs[1], fmt.Sprintf("%s=%d", killEnv, kill), fmt.Sprintf("%s=%d", fromEnv, from), initEnv+"="+lab.app)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil {
			return true
		}
		if err != nil {
			t.Fatalf("point %d, from step %d: %v\n%s", kill, from, err, out)
		}
		return false
	}
	killed := life(kill, 1)
	count(ctx, t, drv, kill)
	if killed {
		life(0, 3)
	}
	running := count(ctx, t, drv, kill)
	if len(running) != 1 || running["cam"].Image != lab.refs[1] {
		t.Errorf("point %d: at the end there runs %+v, want cam on the second image alone", kill, running)
	}
	left, err := filepath.Glob(filepath.Join(dir, "pipes", "*"))
	if err != nil || len(left) > 1 {
		t.Errorf("point %d: pipes are left: %v %v", kill, left, err)
	}
	cs, err := drv.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cs {
		if err := drv.Remove(ctx, c.ID); err != nil {
			t.Error(err)
		}
	}
	if len(cs) != 1 {
		t.Errorf("point %d: %d containers are left, want 1", kill, len(cs))
	}
	return killed
}

// count gives what runs by assignment, and fails if one runs twice.
func count(ctx context.Context, t *testing.T, drv *ctrd.Driver, kill int) map[string]workload.Container {
	t.Helper()
	cs, err := drv.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]workload.Container{}
	for _, c := range cs {
		if c.State != workload.Running && c.State != workload.Prepared {
			continue
		}
		if other, twice := running[c.UID]; twice {
			t.Errorf("point %d: %s runs twice, as %s and %s", kill, c.UID, other.ID, c.ID)
		}
		running[c.UID] = c
	}
	return running
}
