package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/test/lab"
)

// fleet is the one fleet of the package with what lives in this process for it.
type fleet struct {
	*lab.Fleet
	containerd *lab.Containerd
	registry   *lab.Registry
	links      map[string][]*lab.Link // by device; the first is to the registry
	digests    map[string]string      // of images pushed, by repository:tag
}

var shared *fleet

func TestMain(m *testing.M) {
	code := 1
	err := func() error {
		if os.Geteuid() != 0 {
			return errors.New("these tests need root: containers and network namespaces")
		}
		dir, err := os.MkdirTemp("", "dr")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		shared, err = startFleet(ctx, dir)
		if err == nil {
			code = m.Run()
		}
		return errors.Join(err, shared.stop(code == 0))
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// freeAddrs finds loopback addresses that nobody uses now.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func startFleet(ctx context.Context, dir string) (*fleet, error) {
	addrs, err := freeAddrs(7)
	if err != nil {
		return nil, err
	}
	plan := lab.Plan{
		Dir: dir, Bin: filepath.Join(dir, "bin"), Prefix: "drover-e2e-",
		Devices: []string{"pi-01", "pi-02", "pi-03"}, Registry: addrs[6],
		AgentArgs: []string{"--boot-id-file", filepath.Join(dir, "boot_id")},
	}
	for i := range 3 {
		plan.Members = append(plan.Members, lab.Member{Name: fmt.Sprintf("h%d", i+1), API: addrs[2*i], Peer: addrs[2*i+1]})
	}
	inner, err := lab.Load(plan)
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: inner, digests: map[string]string{}}
	return f, errors.Join(f.build(ctx), f.begin(ctx))
}

// build compiles the programs under test from this very tree.
func (f *fleet) build(ctx context.Context) error {
	for _, p := range []string{"drover", "drover-hub", "drover-agent"} {
		if err := lab.BuildProgram(ctx, "../..", "./cmd/"+p, runtime.GOARCH, filepath.Join(f.Bin, p)); err != nil {
			return err
		}
	}
	return lab.BuildProgram(ctx, "../..", "./test/images/hello", runtime.GOARCH, f.Path("hello"))
}

func (f *fleet) begin(ctx context.Context) (err error) {
	if err := f.setBootID(); err != nil {
		return err
	}
	if f.registry, err = lab.StartRegistry(f.Registry); err != nil {
		return err
	}
	for _, tag := range []string{"1.0", "1.1", "1.2"} {
		if err := f.push(ctx, tag); err != nil {
			return err
		}
	}
	if f.links, err = f.Links(); err != nil {
		return err
	}
	if f.containerd, err = f.StartContainerd(ctx); err != nil {
		return err
	}
	if err := f.StartHub(ctx); err != nil {
		return err
	}
	for _, d := range f.Devices {
		if err := f.StartAgent(ctx, d); err != nil {
			return err
		}
	}
	for _, d := range f.Devices {
		if err := f.Ready(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// push stores the sample image under a tag; each tag has a digest of its own.
func (f *fleet) push(ctx context.Context, tag string) error {
	img, err := lab.ProgramImage(f.Path("hello"), map[string]string{"version": tag})
	if err != nil {
		return err
	}
	f.digests["hello:"+tag], err = lab.Push(ctx, f.Registry, "hello:"+tag, img)
	return err
}

// setBootID gives the machine a new boot id, as a reboot does.
func (f *fleet) setBootID() error {
	b, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	return os.WriteFile(f.Path("boot_id"), b, 0o644)
}

// stop takes everything down; the folder with its logs stays when a test failed.
func (f *fleet) stop(passed bool) error {
	if f == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, of := range f.links {
		for _, l := range of {
			l.Cut()
		}
	}
	if f.registry != nil {
		f.registry.Close()
	}
	err := f.Down(ctx)
	if passed && err == nil {
		return os.RemoveAll(f.Dir)
	}
	fmt.Fprintf(os.Stderr, "e2e: logs are in %s\n", f.Path("log"))
	return err
}

// offline cuts every link of every device; online mends them.
func (f *fleet) offline() {
	for _, of := range f.links {
		for _, l := range of {
			l.Cut()
		}
	}
}

func (f *fleet) online(t *testing.T) {
	t.Helper()
	for _, of := range f.links {
		for _, l := range of {
			if err := l.Mend(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// within is a context for one wait of a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// drover runs the CLI and fails the test unless it ends with the wanted exit code. It returns standard output.
func (f *fleet) drover(t *testing.T, want int, args ...string) string {
	t.Helper()
	return f.droverIn(t, want, "", args...)
}

func (f *fleet) droverIn(t *testing.T, want int, in string, args ...string) string {
	t.Helper()
	out, err := f.DroverIn(within(t, 3*time.Minute), in, args...)
	if got := exitCode(err); got != want {
		t.Fatalf("drover %s: exit code %d, want %d: %v\n%s", strings.Join(args, " "), got, want, err, out)
	}
	return out
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// workload is the manifest of a greeter on every device.
func (f *fleet) workload(name, tag, greeting string) string {
	return fmt.Sprintf(`apiVersion: fleet.drover.dev/v1
kind: Workload
metadata: {name: %s}
spec:
  placement: {everywhere: true, all: true}
  rollout: {maxUnavailable: 1, minReadySeconds: 0}
  template:
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: %s/hello:%s
        env:
        - {name: GREETING, value: "%s"}
        - {name: DEVICE, valueFrom: {fieldRef: {fieldPath: device.name}}}
        readinessProbe:
          exec: {command: [/hello, ready]}
          periodSeconds: 1
`, name, f.Registry, tag, greeting)
}

// rollOut applies a manifest and follows its rollout to the end.
func (f *fleet) rollOut(t *testing.T, name, manifest string) {
	t.Helper()
	f.droverIn(t, 0, manifest, "apply", "-f", "-")
	f.drover(t, 0, "rollout", "status", name, "--timeout", "90s")
}

// remove deletes a workload and waits until its containers are gone.
func (f *fleet) remove(t *testing.T, name string) {
	t.Helper()
	f.drover(t, 0, "delete", "workload", name, "--ignore-not-found")
	f.until(t, time.Minute, "no container of "+name+" is left", func() error {
		if c := f.containers(t, name); len(c) > 0 {
			return fmt.Errorf("%v", c)
		}
		return nil
	})
}

func (f *fleet) until(t *testing.T, d time.Duration, what string, ok func() error) {
	t.Helper()
	if err := lab.Until(within(t, d), what, ok); err != nil {
		t.Fatal(err)
	}
}

// objects lists a kind through the CLI's JSON.
func objects[T any](t *testing.T, f *fleet, args ...string) []T {
	t.Helper()
	out := f.drover(t, 0, append([]string{"get", "-o", "json"}, args...)...)
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	if list.Kind != "List" {
		list.Items = []json.RawMessage{[]byte(out)}
	}
	found := make([]T, len(list.Items))
	for i, raw := range list.Items {
		if err := json.Unmarshal(raw, &found[i]); err != nil {
			t.Fatalf("read %q: %v", raw, err)
		}
	}
	return found
}

// assignments lists the copies of a workload.
func (f *fleet) assignments(t *testing.T, workload string) []api.Assignment {
	t.Helper()
	var out []api.Assignment
	for _, a := range objects[api.Assignment](t, f, "assignments") {
		if a.Spec.Workload == workload {
			out = append(out, a)
		}
	}
	return out
}

// containers lists the running containers of a workload's copies as containerd has them, by device.
func (f *fleet) containers(t *testing.T, workload string) map[string]lab.Task {
	t.Helper()
	tasks, err := f.containerd.Tasks(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]lab.Task{}
	for _, task := range tasks {
		labels, err := f.containerd.Ctr(within(t, 20*time.Second), "-n", task.Namespace, "containers", "info", task.Container)
		if err != nil || task.Status != "RUNNING" || !strings.Contains(labels, "/"+workload+".") {
			continue // another workload's, or gone since the list
		}
		for _, d := range f.Devices {
			if strings.Contains(task.Namespace, d) {
				if twin, two := found[d]; two {
					t.Fatalf("two copies of %s run on %s: %v and %v", workload, d, twin, task)
				}
				found[d] = task
			}
		}
	}
	return found
}
