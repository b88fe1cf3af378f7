package side

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

// Side is three members of one kind, and how they are driven.
type Side struct {
	Name      string
	Procs     func(i int) *lab.Process // of member i, as it runs now
	Restart   func(ctx context.Context, i int) error
	Leader    func(ctx context.Context) (int, error)
	Dirs      []string
	Endpoints []string

	tls    [3]string // CA, certificate, key
	driver []string  // command that reads a load.Spec
}

// Members are as many on each side.
const Members = 3

// Run drives the side. The spec's members and files are filled in.
func (s *Side) Run(ctx context.Context, spec load.Spec) (load.Result, error) {
	var r load.Result
	if spec.Endpoints == nil {
		spec.Endpoints = s.Endpoints
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
		return r, fmt.Errorf("%s: load %s: %w: %.2000s", s.Name, spec.Op, err, said.String())
	}
	return r, json.Unmarshal(out.Bytes(), &r)
}

// Fill writes so many keys, each once.
func (s *Side) Fill(ctx context.Context, n int) error {
	began := time.Now()
	if _, err := s.Run(ctx, load.Spec{Fill: true, Conns: 4 * Members, ValueBytes: 256, Keys: n}); err != nil {
		return fmt.Errorf("fill %s: %w", s.Name, err)
	}
	fmt.Fprintf(os.Stderr, "%-58s %-6s %.1f s\n", fmt.Sprintf("%d keys written", n), s.Name, time.Since(began).Seconds())
	return nil
}

// Usage is what the members hold, each, and have used so far, together.
func (s *Side) Usage() (report.Usage, error) {
	var u report.Usage
	for i := range Members {
		p := s.Procs(i)
		if p == nil {
			return u, fmt.Errorf("%s: member %d was never started", s.Name, i)
		}
		if err := u.Add(p.PID); err != nil {
			return u, fmt.Errorf("%s: member %d: %w", s.Name, i, err)
		}
	}
	u.Resident /= Members
	u.Own /= Members
	return u, nil
}

// House is where everything of a run lives.
type House struct {
	dir, bin string
	fleet    *lab.Fleet
	peer     *lab.Fleet // only its processes
}

// New prepares a run of the programs in a folder, drover, drover-hub and bench-etcd; profiles has our members serve them.
func New(bin string, profiles bool) (*House, error) {
	dir, err := os.MkdirTemp("", "drb")
	if err != nil {
		return nil, err
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	var of []lab.Member
	for i := range Members {
		of = append(of, lab.Member{
			Name: fmt.Sprintf("h%d", i+1), API: fmt.Sprintf("127.0.0.1:%d", 17541+2*i), Peer: fmt.Sprintf("127.0.0.1:%d", 17542+2*i),
		})
	}
	h := &House{dir: dir, bin: bin}
	var hubArgs []string
	if profiles {
		hubArgs = []string{"--profiles"}
	}
	if h.fleet, err = lab.Load(lab.Plan{Dir: filepath.Join(dir, "ours"), Bin: bin, Members: of, HubArgs: hubArgs}); err != nil {
		return nil, err
	}
	if h.peer, err = lab.Load(lab.Plan{Dir: filepath.Join(dir, "peer"), Bin: bin}); err != nil {
		return nil, err
	}
	return h, errors.Join(os.MkdirAll(h.fleet.Dir, 0o755), os.MkdirAll(h.peer.Dir, 0o755))
}

// Down stops everything and removes it, unless KEEP=1 asks for the directories.
func (h *House) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := errors.Join(h.fleet.Down(ctx), h.peer.Down(ctx))
	if os.Getenv("KEEP") == "1" {
		fmt.Fprintln(os.Stderr, "kept:", h.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}

// Words by which a bench's binary is told to be the driver of our members.
const (
	driveDirect = "load"
	driveAPI    = "load-api"
)

// Driver runs the driver that the arguments name and returns true; false where they name none.
func Driver(ctx context.Context, args []string) (bool, error) {
	if len(args) != 1 {
		return false, nil
	}
	switch args[0] {
	case driveDirect:
		return true, load.Main(ctx, dialDirect, os.Stdin, os.Stdout)
	case driveAPI:
		return true, load.Main(ctx, dialAPI, os.Stdin, os.Stdout)
	}
	return false, nil
}

// Hub founds a hub of three, driven by the members' own service.
func (h *House) Hub(ctx context.Context) (*Side, error) {
	if err := h.fleet.StartHub(ctx); err != nil {
		return nil, fmt.Errorf("start drover: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &Side{Name: "drover", driver: []string{self, driveDirect}, Restart: h.fleet.LaunchMember, Leader: h.leader}
	for i, file := range []string{"ca.crt", "member.crt", "member.key"} {
		s.tls[i] = h.fleet.Path("hub", h.fleet.Members[0].Name, file)
	}
	for _, m := range h.fleet.Members {
		s.Endpoints = append(s.Endpoints, m.API)
		s.Dirs = append(s.Dirs, h.fleet.Path("hub", m.Name))
	}
	s.Procs = func(i int) *lab.Process { return h.fleet.Procs[h.fleet.Members[i].Name] }
	return s, nil
}

// API is a hub as operators reach it: its HTTPS API, with the first admin's certificate.
func (h *House) API(hub *Side) (*Side, error) {
	config, err := remote.LoadKubeconfig(h.fleet.Path("config"), "")
	if err != nil {
		return nil, err
	}
	s := *hub
	s.Name, s.driver = "API", []string{hub.driver[0], driveAPI}
	for i, b := range [][]byte{config.CA, config.Cert, config.Key} {
		s.tls[i] = h.fleet.Path([]string{"ca.pem", "cert.pem", "key.pem"}[i])
		if err := os.WriteFile(s.tls[i], b, 0o600); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

// Drover runs the command line tool against the hub.
func (h *House) Drover(ctx context.Context, args ...string) (string, error) {
	return h.fleet.Drover(ctx, args...)
}

func (h *House) leader(ctx context.Context) (int, error) {
	out, err := h.fleet.Drover(ctx, "hub", "members", "-o", "json")
	if err != nil {
		return 0, err
	}
	var list remote.MemberList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return 0, err
	}
	for i, m := range h.fleet.Members {
		for _, l := range list.Items {
			if l.Name == m.Name && l.Leader {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("no leader in %s", strings.TrimSpace(out))
}
