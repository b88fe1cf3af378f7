package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/test/lab"
)

// kubectl is Debian's, unpacked beside the fleet so that one the machine has stays as it is.
func (f *fleet) kubectl(t *testing.T) string {
	t.Helper()
	path := f.Path("kubectl")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := lab.UnpackDebian(within(t, 5*time.Minute), "kubernetes-client", "usr/bin/kubectl", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *fleet) kube(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(within(t, 2*time.Minute), f.kubectl(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Path("config"), "HOME="+f.Dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

func (f *fleet) wantKube(t *testing.T, wanted []string, args ...string) string {
	t.Helper()
	out, err := f.kube(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wanted {
		if !strings.Contains(out, w) {
			t.Errorf("kubectl %s prints no %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

func TestKubectlWorksUnmodified(t *testing.T) {
	f := shared
	f.rollOut(t, "kube", f.workload("kube", "1.0", "kube"))
	defer f.remove(t, "kube")

	f.wantKube(t, []string{"NAME", "READY", "pi-01", "pi-02", "pi-03"}, "get", "devices")
	f.wantKube(t, []string{"kube", "hello:1.0"}, "get", "workloads", "-o", "wide")
	f.wantKube(t, []string{"kind: Workload", "name: kube", "observedGeneration:"}, "get", "workload", "kube", "-o", "yaml")
	f.wantKube(t, []string{"workloads", "devices", "assignments", "configmaps", "fleet.drover.dev"}, "api-resources")
	f.wantKube(t, []string{"kube.pi-01"}, "get", "assignments", "-l", "fleet.drover.dev/workload=kube")

	all := f.watchKube(t, "get", "workloads", "-w")
	one := f.watchKube(t, "get", "workload", "kube", "-w")
	all.want(t, "kube")
	one.want(t, "kube")
	f.drover(t, 0, "label", "workload", "kube", "seen=yes")
	f.rollOut(t, "kube", f.workload("kube", "1.1", "kube"))
	all.want(t, "kube")
	one.want(t, "kube")

	out := f.wantKube(t, []string{"deleted"}, "delete", "workload", "kube")
	if _, err := f.kube(t, "get", "workload", "kube"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("after %q the workload is still there: %v", out, err)
	}
}

// kubeWatch is a kubectl that goes on.
type kubeWatch struct {
	name  string
	lines chan string
}

func (f *fleet) watchKube(t *testing.T, args ...string) *kubeWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, f.kubectl(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Path("config"), "HOME="+f.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &kubeWatch{name: strings.Join(args, " "), lines: make(chan string, 1024)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // killed by us
	})
	return w
}

// want waits for a further line with the text.
func (w *kubeWatch) want(t *testing.T, text string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for {
		select {
		case line := <-w.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("kubectl %s printed no further line with %q", w.name, text)
		}
	}
}

func TestAgentForARMStartsUnderQemu(t *testing.T) {
	f := shared
	agent := f.Path("drover-agent-arm64")
	if err := lab.BuildProgram(within(t, 8*time.Minute), "../..", "./cmd/drover-agent", "arm64", agent); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(within(t, time.Minute), "/usr/bin/qemu-aarch64-static", agent, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "arm64") {
		t.Errorf("drover-agent version under qemu: %v: %q, want the architecture", err, out)
	}
	data := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(within(t, time.Minute), "/usr/bin/qemu-aarch64-static", agent, "--data", data, "--name", "pi-arm",
		"--hub", "https://127.0.0.1:1", "--token", "/nonexistent", "--containerd", "/nonexistent.sock")
	out, err = cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/nonexistent") {
		t.Errorf("drover-agent under qemu with a token file that is not there: %v: %q, want an error that names it", err, out)
	}
}
