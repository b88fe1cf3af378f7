package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
		{"making three network namespaces, the devices' links and a registry", d.background},
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
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return err
	}
	return lab.InstallTools(ctx, os.Stderr, "/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/bin/ip")
}

func (d *demo) sample(ctx context.Context) error {
	return lab.BuildProgram(ctx, d.root, "./test/images/hello", runtime.GOARCH, d.Path("hello"))
}

func (d *demo) containerd(ctx context.Context) error {
	_, err := d.StartContainerd(ctx)
	return err
}

// background starts the process that serves the registry and the links; an earlier one goes on.
func (d *demo) background(ctx context.Context) error {
	if p := d.Procs["serve"]; p == nil || !p.Alive() {
		if err := lab.Free(d.Registry); err != nil {
			return err
		}
		if err := os.RemoveAll(d.Path("serving")); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := d.Start(lab.Spec{Name: "serve", Path: self, Args: []string{"serve"}}); err != nil {
		return err
	}
	return d.Until(ctx, "serve", "the registry and the links are up", func() error {
		_, err := os.Stat(d.Path("serving"))
		return err
	})
}

func (d *demo) hub(ctx context.Context) error {
	if err := d.StartHub(ctx); err != nil {
		return err
	}
	env := fmt.Sprintf("export DROVER_CONFIG=%q\nexport KUBECONFIG=%q\nexport PATH=%q:$PATH\n", d.Path("config"), d.Path("config"), d.Bin)
	return os.WriteFile(d.Path("env"), []byte(env), 0o644)
}

func (d *demo) agents(ctx context.Context) error {
	for _, dev := range d.Devices {
		if err := d.StartAgent(ctx, dev); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) ready(ctx context.Context) error {
	for _, dev := range d.Devices {
		if err := d.Ready(ctx, dev); err != nil {
			return err
		}
	}
	return nil
}

// apply shows the two commands' own output, as a newcomer would see it.
func (d *demo) apply(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "-f", "deploy/examples/hello.yaml"},
		{"rollout", "status", "hello", "--timeout", "2m"},
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "drover"), args...)
		cmd.Env = append(os.Environ(), "DROVER_CONFIG="+d.Path("config"))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("drover %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}
