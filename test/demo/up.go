package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/drover-fleet/drover/test/lab"
)

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "demo: "+format+"\n", args...) }

// step says what begins, and how long it took when it took long.
func step(what string, f func() error) error {
	say("%s", what)
	began := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		say("%s: took %.0f s", what, took.Seconds())
	}
	return nil
}

func (d *demo) up(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("containers and network namespaces need root: sudo make demo")
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, s := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"checking for containerd, runc and ip", d.install},
		{"building the sample image's program", d.sample},
		{"starting a private containerd", d.containerd},
		{"making three network namespaces, the devices' links and a registry", d.links},
		{"starting three hub members", d.hub},
		{"starting three agents", d.agents},
		{"waiting for three Ready devices", d.ready},
		{"applying deploy/examples/hello.yaml", d.apply},
	} {
		if err := step(s.what, func() error { return s.do(ctx) }); err != nil {
			return err
		}
	}
	say("done in %.0f s", time.Since(began).Seconds())
	fmt.Print(next)
	return nil
}

const next = `
Three hub members, three devices and one workload run. Try:

  . .demo/env
  drover get devices                       what the fleet looks like, and how old the knowledge is
  drover get workloads                     what was declared, and how far it is
  drover logs hello --tail 3               what the containers say
  drover why workload/hello                who caused what
  sed 's/hello from drover/good day/' deploy/examples/hello.yaml | drover apply -f - && drover rollout status hello
  drover rollout undo hello                back to the revision before
  kubectl get devices                      the same, with Kubernetes' tool
  make demo-down                           leaves nothing behind
`

func (d *demo) install(ctx context.Context) error {
	if err := os.MkdirAll(d.path("log"), 0o755); err != nil {
		return err
	}
	return lab.InstallTools(ctx, os.Stderr, "/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/bin/ip")
}

func (d *demo) sample(ctx context.Context) error {
	return lab.BuildProgram(ctx, d.root, "./test/images/hello", runtime.GOARCH, d.path("hello"))
}

func (d *demo) containerd(ctx context.Context) error {
	if p := d.procs["containerd"]; p != nil && p.Alive() {
		return nil
	}
	c, err := lab.StartContainerd(ctx, d.path("containerd"))
	if c != nil && c.Process != nil {
		d.procs["containerd"] = c.Process
		err = errors.Join(err, d.save())
	}
	return err
}

func (d *demo) links(ctx context.Context) error {
	for _, dev := range devices {
		if err := lab.AddNetns(netnsOf(dev)); err != nil {
			return err
		}
	}
	if p := d.procs["serve"]; p == nil || !p.Alive() {
		if err := free(registryAddr); err != nil {
			return err
		}
		if err := os.RemoveAll(d.path("serving")); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := d.start(lab.Spec{Name: "serve", Path: self, Args: []string{"serve"}}); err != nil {
		return err
	}
	return d.until(ctx, "serve", "the registry and the links are up", func() error {
		_, err := os.Stat(d.path("serving"))
		return err
	})
}

// until waits for something that one process of the demo is to bring about.
func (d *demo) until(ctx context.Context, process, what string, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var ended error
	err := lab.Until(ctx, what, func() error {
		if p := d.procs[process]; !p.Alive() {
			ended = fmt.Errorf("%s ended; the end of %s:\n%s", process, p.Log, tail(p.Log))
			return nil
		}
		return ok()
	})
	return errors.Join(err, ended)
}

func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// drover runs the CLI against the demo's hub and returns its standard output.
func (d *demo) drover(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.bin("drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG="+d.path("config"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("drover %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func (d *demo) hub(ctx context.Context) error {
	for i, m := range members {
		if err := d.member(ctx, i, m); err != nil {
			return err
		}
	}
	config, err := d.drover(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path("config"), []byte(config), 0o600); err != nil {
		return err
	}
	env := fmt.Sprintf("export DROVER_CONFIG=%s\nexport KUBECONFIG=%s\nexport PATH=%s:$PATH\n", d.path("config"), d.path("config"), d.bin(""))
	return os.WriteFile(d.path("env"), []byte(env), 0o644)
}

func (d *demo) member(ctx context.Context, i int, m member) error {
	dir := d.path("hub", m.name)
	args := []string{"--dir", dir}
	_, err := os.Stat(dir + "/member.json")
	if isNew := errors.Is(err, os.ErrNotExist); isNew {
		if err := errors.Join(free(m.api), free(m.peer)); err != nil {
			return err
		}
		args = append(args, "--name", m.name, "--api", m.api, "--peer", m.peer)
		if i == 0 {
			args = append(args, "--init")
		} else {
			token, err := d.token(ctx, "--for", "hub")
			if err != nil {
				return err
			}
			args = append(args, "--join", token, "--server", "https://"+members[0].api)
		}
	}
	if _, err := d.start(lab.Spec{Name: m.name, Path: d.bin("drover-hub"), Args: args}); err != nil {
		return err
	}
	return d.until(ctx, m.name, m.name+" is ready", func() error {
		if i == 0 {
			if _, err := os.Stat(d.path("config")); err != nil {
				b, err := os.ReadFile(dir + "/admin.kubeconfig")
				if err != nil {
					return err
				}
				if err := os.WriteFile(d.path("config"), b, 0o600); err != nil {
					return err
				}
			}
		}
		_, err := d.drover(ctx, "--server", "https://"+m.api, "get", "devices")
		return err
	})
}

// token makes a join token and leaves it in a file, as a secret should not stand in a command line.
func (d *demo) token(ctx context.Context, args ...string) (file string, err error) {
	token, err := d.drover(ctx, append([]string{"token", "create"}, args...)...)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(d.dir, "token-")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.WriteString(strings.TrimSpace(token))
	return f.Name(), err
}

func (d *demo) agents(ctx context.Context) error {
	for _, dev := range devices {
		data := d.path("devices", dev)
		args := []string{"--data", data, "--name", dev, "--containerd", d.path("containerd", "c.sock")}
		for _, m := range members {
			args = append(args, "--hub", "https://"+m.api)
		}
		if _, err := os.Stat(data + "/identity"); errors.Is(err, os.ErrNotExist) {
			token, err := d.token(ctx, "--label", "site=demo")
			if err != nil {
				return err
			}
			args = append(args, "--token", token)
		}
		if _, err := d.start(lab.Spec{Name: dev, Path: d.bin("drover-agent"), Args: args, Netns: netnsOf(dev)}); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) ready(ctx context.Context) error {
	for _, dev := range devices {
		if err := d.until(ctx, dev, "device "+dev+" is Ready", func() error {
			_, err := d.drover(ctx, "wait", "--for", "condition=Ready", "--timeout", "2s", "device/"+dev)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) apply(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "-f", "deploy/examples/hello.yaml"},
		{"rollout", "status", "hello", "--timeout", "2m"},
	} {
		cmd := exec.CommandContext(ctx, d.bin("drover"), args...)
		cmd.Env = append(os.Environ(), "DROVER_CONFIG="+d.path("config"))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("drover %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}
