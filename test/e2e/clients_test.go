package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/test/lab"
)

// built is a program of Kubernetes' own client libraries, of a module below test/kube. The first build on a machine takes minutes.
func (f *fleet) built(t *testing.T, name string) string {
	t.Helper()
	path := f.Path("kube-" + name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := lab.BuildProgram(within(t, 12*time.Minute), filepath.Join("..", "kube", name), ".", runtime.GOARCH, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectlOf runs one kubectl against one member ("": the first).
type kubectlOf struct {
	*fleet
	program, server string
}

func (k kubectlOf) command(ctx context.Context, in string, args ...string) *exec.Cmd {
	if k.server != "" {
		args = append([]string{"--server", k.server}, args...)
	}
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.Path("config"), "HOME="+k.Dir, "KUBE_EDITOR=sed -i s/before/after/")
	cmd.Stdin = strings.NewReader(in)
	return cmd
}

// want runs it and wants the texts in what it prints.
func (k kubectlOf) want(t *testing.T, in string, wanted []string, args ...string) {
	t.Helper()
	out, err := k.command(within(t, 2*time.Minute), in, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(k.program), strings.Join(args, " "), err, out)
	}
	for _, w := range wanted {
		if !strings.Contains(string(out), w) {
			t.Errorf("%s %s prints no %q:\n%s", filepath.Base(k.program), strings.Join(args, " "), w, out)
		}
	}
}

// idle is the manifest of a workload that no device of the fleet runs: its selector matches none.
func (f *fleet) idle(name string, replicas int) string {
	m := strings.Replace(f.workload(name, "1.0", "hello"), "{everywhere: true, all: true}", fmt.Sprintf("{replicas: %d, selector: {matchLabels: {site: nowhere}}}", replicas), 1)
	return strings.Replace(m, "{name: "+name+"}", "{name: "+name+`, annotations: {edited: before}}`, 1)
}

func TestOldAndNewKubectlDoEveryVerb(t *testing.T) {
	f := shared
	for version, program := range map[string]string{"old": f.kubectl(t), "new": f.built(t, "kubectl")} {
		t.Run(version, func(t *testing.T) {
			k, name := kubectlOf{fleet: f, program: program}, "verbs-"+version
			k.want(t, f.idle(name, 1), []string{"created"}, "apply", "-f", "-")
			k.want(t, f.idle(name, 2), []string{"configured"}, "apply", "-f", "-")
			k.want(t, f.idle(name, 2), []string{"serverside-applied"}, "apply", "--server-side", "-f", "-")
			k.want(t, "", []string{name}, "get", "workloads")
			k.want(t, "", []string{"maxUnavailable", "minReadySeconds", "progressDeadline", "new revision moves over the fleet"}, "explain", "workload.spec.rollout", "--recursive")
			k.want(t, "", []string{"edited"}, "edit", "workload", name)
			k.want(t, "", []string{"after"}, "get", "workload", name, "-o", "jsonpath={.metadata.annotations.edited}")
			k.want(t, "", []string{"labeled"}, "label", "workload", name, "seen=yes")
			k.want(t, "", []string{"annotated"}, "annotate", "workload", name, "note=x")
			k.want(t, "", []string{"patched"}, "patch", "workload", name, "--type=merge", "-p", `{"spec":{"rollout":{"minReadySeconds":3}}}`)
			k.want(t, "", []string{"scaled"}, "scale", "workload", name, "--replicas=3")
			k.want(t, "", []string{"3 yes 3"}, "get", "workload", name, "-o", "jsonpath={.spec.placement.replicas} {.metadata.labels.seen} {.spec.rollout.minReadySeconds}")
			k.want(t, "", []string{"Kind:", "Workload", "Events:"}, "describe", "workload", name)
			k.want(t, "", []string{"met"}, "wait", "--for=condition=ImageResolved", "workload/"+name, "--timeout=60s")
			k.want(t, "", []string{"created"}, "create", "configmap", name, "--from-literal=a=b")
			k.want(t, "", []string{"patched"}, "patch", "configmap", name, "-p", `{"data":{"a":"c"}}`)
			k.want(t, "", []string{"created"}, "create", "role", name, "--verb=get", "--resource=workloads.fleet.drover.dev")
			k.want(t, "", []string{"yes"}, "auth", "can-i", "create", "workloads")
			k.want(t, "", []string{"deleted"}, "delete", "workload/"+name, "configmap/"+name, "role/"+name, "--timeout=60s")
		})
	}
}

// lines are what a program prints, as it does.
type lines struct {
	name string
	out  chan string
}

func (f *fleet) follow(t *testing.T, cmd *exec.Cmd) (*lines, io.Writer) {
	t.Helper()
	cmd.Stdin = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &lines{name: filepath.Base(cmd.Path), out: make(chan string, 4096)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			l.out <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed by us
	})
	return l, in
}

// next waits for a further line that begins with the text.
func (l *lines) next(t *testing.T, text string) string {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		select {
		case line := <-l.out:
			if strings.Contains(line, text) {
				return line
			}
		case <-ctx.Done():
			t.Fatalf("%s printed no further line with %q", l.name, text)
		}
	}
}

// A member that only follows keeps the watches of its clients while another one takes over from the leader.
func TestWatchesOfKubectlGoOnWhenTheLeaderDies(t *testing.T) {
	f := shared
	leader := f.leader(t)
	follower := "https://" + f.Members[(leader+1)%3].API
	var watching []*lines
	for _, program := range []string{f.kubectl(t), f.built(t, "kubectl")} {
		k := kubectlOf{fleet: f, program: program, server: follower}
		k.want(t, "", nil, "get", "configmaps")
		w, _ := f.follow(t, k.command(t.Context(), "", "get", "configmaps", "-w"))
		watching = append(watching, w)
	}
	k := kubectlOf{fleet: f, program: f.kubectl(t), server: follower}
	k.want(t, "", nil, "create", "configmap", "before-the-death")
	for _, w := range watching {
		w.next(t, "before-the-death")
	}
	if err := f.Procs[f.Members[leader].Name].Kill(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	f.until(t, time.Minute, "the rest of the hub writes", func() error {
		out, err := k.command(within(t, 20*time.Second), "", "create", "configmap", "after-the-death").CombinedOutput()
		if err != nil && !strings.Contains(string(out), "already exists") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	for _, w := range watching {
		w.next(t, "after-the-death")
	}
	if err := f.StartMember(within(t, time.Minute), leader); err != nil {
		t.Fatal(err)
	}
	k.want(t, "", nil, "delete", "configmap", "before-the-death", "after-the-death")
}

// A shared informer of client-go ends equal to a list, whatever happened to the member that it was connected to.
func TestSharedInformerSurvivesItsMembersRestart(t *testing.T) {
	f := shared
	victim := f.leader(t)
	config := f.configOf(t, victim)
	cmd := exec.CommandContext(t.Context(), f.built(t, "informer"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+config, "HOME="+f.Dir)
	out, in := f.follow(t, cmd)
	out.next(t, "synced")
	k := kubectlOf{fleet: f, program: f.kubectl(t), server: "https://" + f.Members[(victim+1)%3].API}
	equal := func() {
		t.Helper()
		f.until(t, time.Minute, "the informers hold what a list has", func() error {
			fmt.Fprintln(in, "list")
			if line := out.next(t, " "); !strings.HasPrefix(line, "equal") {
				return fmt.Errorf("%s", line)
			}
			return nil
		})
	}
	for i := range 5 {
		k.want(t, "", nil, "create", "configmap", fmt.Sprintf("informed-%d", i))
	}
	equal()
	if err := f.Procs[f.Members[victim].Name].Kill(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	f.until(t, time.Minute, "the rest of the hub writes", func() error {
		out, err := k.command(within(t, 20*time.Second), "", "delete", "configmap", "informed-0", "--ignore-not-found").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	k.want(t, "", nil, "create", "configmap", "informed-5")
	if err := f.StartMember(within(t, time.Minute), victim); err != nil {
		t.Fatal(err)
	}
	equal()
	for i := 1; i <= 5; i++ {
		k.want(t, "", nil, "delete", "configmap", fmt.Sprintf("informed-%d", i))
	}
	equal()
}

// configOf is the CLI's config with one member as its server.
func (f *fleet) configOf(t *testing.T, member int) string {
	t.Helper()
	b, err := os.ReadFile(f.Path("config"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, m := range f.Members {
		text = strings.ReplaceAll(text, "https://"+m.API, "https://"+f.Members[member].API)
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestControllerRuntimeManagerReconcilesWorkloads(t *testing.T) {
	f := shared
	cmd := exec.CommandContext(t.Context(), f.built(t, "reconciler"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Path("config"), "HOME="+f.Dir)
	f.follow(t, cmd)
	k := kubectlOf{fleet: f, program: f.kubectl(t)}
	k.want(t, f.idle("reconciled", 1), nil, "apply", "-f", "-")
	seen := func(generation string) {
		t.Helper()
		f.until(t, time.Minute, "the manager saw generation "+generation, func() error {
			w, err := k.command(within(t, 20*time.Second), "", "get", "workload", "reconciled", "-o", `jsonpath={.metadata.annotations.example\.com/seen}`).CombinedOutput()
			if err != nil || string(w) != generation {
				return fmt.Errorf("annotation: %s", w) // or what kubectl said
			}
			m, err := k.command(within(t, 20*time.Second), "", "get", "configmap", "reconciled-seen", "-o", "jsonpath={.data.generation} {.metadata.ownerReferences[0].name}").CombinedOutput()
			if err != nil || string(m) != generation+" reconciled" {
				return fmt.Errorf("config map: %s", m)
			}
			return nil
		})
	}
	seen("1")
	k.want(t, "", nil, "scale", "workload", "reconciled", "--replicas=2")
	seen("2")
	k.want(t, "", nil, "delete", "workload", "reconciled")
	f.until(t, time.Minute, "what the workload owned goes with it", func() error {
		out, err := k.command(within(t, 20*time.Second), "", "get", "configmap", "reconciled-seen").CombinedOutput()
		if err == nil {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}
