package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/bench/store/load"
	"github.com/drover-fleet/drover/test/lab"
)

// side is three members of one kind, and how they are driven.
type side struct {
	name      string
	procs     func(i int) *lab.Process // of member i, as it runs now
	restart   func(ctx context.Context, i int) error
	leader    func(ctx context.Context) (int, error)
	dirs      []string
	endpoints []string
	tls       [3]string // CA, certificate, key
	driver    []string  // command that reads a load.Spec
}

const members = 3

// run drives the side. The spec's members and files are filled in.
func (s *side) run(ctx context.Context, spec load.Spec) (load.Result, error) {
	var r load.Result
	if spec.Endpoints == nil {
		spec.Endpoints = s.endpoints
	}
	spec.CA, spec.Cert, spec.Key = s.tls[0], s.tls[1], s.tls[2]
	in, err := json.Marshal(spec)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, spec.Warm+spec.Measure+5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.driver[0], s.driver[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s: load %s: %w: %.2000s", s.name, spec.Op, err, said.String())
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// fill writes so many keys, each once.
func (s *side) fill(ctx context.Context, n int) error {
	began := time.Now()
	if _, err := s.run(ctx, load.Spec{Fill: true, Conns: 4 * members, ValueBytes: 256, Keys: n}); err != nil {
		return fmt.Errorf("fill %s: %w", s.name, err)
	}
	fmt.Fprintf(os.Stderr, "%-58s %-6s %.1f s\n", fmt.Sprintf("%d keys written", n), s.name, time.Since(began).Seconds())
	return nil
}

// usage is what the members hold, each, and have used so far, together.
func (s *side) usage() (report.Usage, error) {
	var u report.Usage
	for i := range members {
		p := s.procs(i)
		if p == nil {
			return u, fmt.Errorf("%s: member %d was never started", s.name, i)
		}
		if err := u.Add(p.PID); err != nil {
			return u, fmt.Errorf("%s: member %d: %w", s.name, i, err)
		}
	}
	u.Resident /= members
	u.Own /= members
	return u, nil
}

// plan is where everything of a run lives.
type plan struct {
	dir, bin string
	fleet    *lab.Fleet
	peer     *lab.Fleet // only its processes
}

func newPlan(rq request) (*plan, error) {
	dir, err := os.MkdirTemp("", "drb")
	if err != nil {
		return nil, err
	}
	bin, err := filepath.Abs(rq.bin)
	if err != nil {
		return nil, err
	}
	var of []lab.Member
	for i := range members {
		of = append(of, lab.Member{
			Name: fmt.Sprintf("h%d", i+1), API: fmt.Sprintf("127.0.0.1:%d", 17541+2*i), Peer: fmt.Sprintf("127.0.0.1:%d", 17542+2*i),
		})
	}
	p := &plan{dir: dir, bin: bin}
	var hubArgs []string
	if rq.profiles != "" {
		hubArgs = []string{"--profiles"}
	}
	if p.fleet, err = lab.Load(lab.Plan{Dir: filepath.Join(dir, "ours"), Bin: bin, Members: of, HubArgs: hubArgs}); err != nil {
		return nil, err
	}
	if p.peer, err = lab.Load(lab.Plan{Dir: filepath.Join(dir, "peer"), Bin: bin}); err != nil {
		return nil, err
	}
	return p, errors.Join(os.MkdirAll(p.fleet.Dir, 0o755), os.MkdirAll(p.peer.Dir, 0o755))
}

// down stops everything and removes it, unless KEEP=1 asks for the directories.
func (p *plan) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := errors.Join(p.fleet.Down(ctx), p.peer.Down(ctx))
	if os.Getenv("KEEP") == "1" {
		fmt.Fprintln(os.Stderr, "kept:", p.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// ours founds a hub of three.
func (p *plan) ours(ctx context.Context) (*side, error) {
	if err := p.fleet.StartHub(ctx); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &side{name: "drover", driver: []string{self, "load"}, restart: p.fleet.LaunchMember, leader: p.hubLeader}
	for i, file := range []string{"ca.crt", "member.crt", "member.key"} {
		s.tls[i] = p.fleet.Path("hub", p.fleet.Members[0].Name, file)
	}
	for _, m := range p.fleet.Members {
		s.endpoints = append(s.endpoints, m.API)
		s.dirs = append(s.dirs, p.fleet.Path("hub", m.Name))
	}
	s.procs = func(i int) *lab.Process { return p.fleet.Procs[p.fleet.Members[i].Name] }
	return s, nil
}

// api is the hub as operators reach it: its HTTPS API, with the first admin's certificate.
func (p *plan) api(hub *side) (*side, error) {
	config, err := remote.LoadKubeconfig(p.fleet.Path("config"), "")
	if err != nil {
		return nil, err
	}
	s := *hub
	s.name, s.driver = "API", []string{hub.driver[0], "load-api"}
	for i, b := range [][]byte{config.CA, config.Cert, config.Key} {
		s.tls[i] = p.fleet.Path([]string{"ca.pem", "cert.pem", "key.pem"}[i])
		if err := os.WriteFile(s.tls[i], b, 0o600); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

func (p *plan) hubLeader(ctx context.Context) (int, error) {
	out, err := p.fleet.Drover(ctx, "hub", "members", "-o", "json")
	if err != nil {
		return 0, err
	}
	var list remote.MemberList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return 0, err
	}
	for i, m := range p.fleet.Members {
		for _, l := range list.Items {
			if l.Name == m.Name && l.Leader {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("no leader in %s", strings.TrimSpace(out))
}
