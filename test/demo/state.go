package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/drover-fleet/drover/test/lab"
)

const registryAddr = "127.0.0.1:5055"

// member is one hub member of the demo.
type member struct{ name, api, peer string }

var (
	members = []member{
		{"h1", "127.0.0.1:7443", "127.0.0.1:7444"},
		{"h2", "127.0.0.1:7453", "127.0.0.1:7454"},
		{"h3", "127.0.0.1:7463", "127.0.0.1:7464"},
	}
	devices = []string{"pi-01", "pi-02", "pi-03"}
)

func netnsOf(device string) string { return "drover-demo-" + device }

// demo knows where everything is and what was started.
type demo struct {
	root, dir string // of the checkout, and .demo below it
	procs     map[string]*lab.Process
}

func newDemo() (*demo, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return nil, errors.New("run this from the top of the checkout (make demo does)")
	}
	d := &demo{root: root, dir: filepath.Join(root, ".demo"), procs: map[string]*lab.Process{}}
	b, err := os.ReadFile(d.path("processes.json"))
	if errors.Is(err, os.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	return d, json.Unmarshal(b, &d.procs)
}

func (d *demo) path(elem ...string) string { return filepath.Join(append([]string{d.dir}, elem...)...) }
func (d *demo) bin(name string) string     { return filepath.Join(d.root, "bin", name) }

// save records what was started before anything else happens, so that a later down finds it.
func (d *demo) save() error {
	b, err := json.MarshalIndent(d.procs, "", "  ")
	if err != nil {
		return err
	}
	tmp := d.path("processes.json.tmp")
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, d.path("processes.json"))
}

// start starts a process unless it still runs; started says whether it did.
func (d *demo) start(s lab.Spec) (started bool, err error) {
	if p := d.procs[s.Name]; p != nil && p.Alive() {
		return false, nil
	}
	s.Log = d.path("log", s.Name+".log")
	p, err := lab.Start(s)
	if err != nil {
		return false, err
	}
	d.procs[s.Name] = p
	return true, d.save()
}

// free tells whether an address of the demo is taken by someone else.
func free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("the demo needs %s: %w (make demo-down ends an earlier demo)", addr, err)
	}
	return l.Close()
}

// serve is the background process: registry and links.
func (d *demo) serve(ctx context.Context) error {
	r, err := lab.StartRegistry(registryAddr)
	if err != nil {
		return err
	}
	defer r.Close()
	img, err := lab.ProgramImage(d.path("hello"), nil)
	if err != nil {
		return err
	}
	digest, err := lab.Push(ctx, registryAddr, "hello:1.0", img)
	if err != nil {
		return err
	}
	for _, dev := range devices {
		for _, addr := range []string{members[0].api, members[1].api, members[2].api, registryAddr} {
			link := lab.NewLink(netnsOf(dev), addr)
			if err := link.Mend(); err != nil {
				return err
			}
			defer link.Cut()
		}
	}
	if err := os.WriteFile(d.path("serving"), []byte(digest), 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
