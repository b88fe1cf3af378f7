package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Member is one hub member of a fleet.
type Member struct{ Name, API, Peer string }

// Plan says what a fleet consists of and where it lives. Everything it writes is below Dir.
type Plan struct {
	Dir     string // short: unix sockets lie below it
	Bin     string // folder of drover, drover-hub and drover-agent
	Prefix  string // of network namespaces, so that two fleets on one machine differ
	Members []Member
	Devices []string
	// Registry is the loopback address that devices and hub know the registry by.
	Registry string

	HubArgs, AgentArgs []string // added to every start
}

// Fleet is a plan with what was started of it. What it starts outlives it; Load finds it again.
type Fleet struct {
	Plan
	Procs map[string]*Process // by name: members, devices, containerd, ...
}

// Load opens the fleet of a folder, started or not.
func Load(p Plan) (*Fleet, error) {
	f := &Fleet{Plan: p, Procs: map[string]*Process{}}
	b, err := os.ReadFile(f.Path("processes.json"))
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &f.Procs); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path("processes.json"), err)
	}
	return f, nil
}

// Path joins below the fleet's folder.
func (f *Fleet) Path(elem ...string) string {
	return filepath.Join(append([]string{f.Dir}, elem...)...)
}

// Netns is the network namespace of a device.
func (f *Fleet) Netns(device string) string { return f.Prefix + device }

// save records what was started before anything else happens, so that a later Down finds it.
func (f *Fleet) save() error {
	b, err := json.MarshalIndent(f.Procs, "", "  ")
	if err != nil {
		return err
	}
	tmp := f.Path("processes.json.tmp")
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, f.Path("processes.json"))
}

// Start starts a process of the fleet unless it still runs.
func (f *Fleet) Start(s Spec) error {
	if p := f.Procs[s.Name]; p != nil && p.Alive() {
		return nil
	}
	if err := os.MkdirAll(f.Path("log"), 0o755); err != nil {
		return err
	}
	s.Log = f.Path("log", s.Name+".log")
	p, err := Start(s)
	if err != nil {
		return err
	}
	f.Procs[s.Name] = p
	return f.save()
}

// Until waits for something that one process of the fleet is to bring about, and shows its log's end when it ended instead.
func (f *Fleet) Until(ctx context.Context, process, what string, ok func() error) error {
	var ended error
	err := Until(ctx, what, func() error {
		if p := f.Procs[process]; p == nil || !p.Alive() {
			ended = fmt.Errorf("%s ended; the end of its log:\n%s", process, f.Tail(process, 15))
			return nil
		}
		return ok()
	})
	return errors.Join(err, ended)
}

// Tail is the end of a process's log.
func (f *Fleet) Tail(process string, lines int) string {
	b, err := os.ReadFile(f.Path("log", process+".log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Free tells whether an address is taken by someone else.
func Free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s is needed: %w", addr, err)
	}
	return l.Close()
}

// Drover runs the CLI against the fleet and returns its standard output. The error of a failed run is an *exec.ExitError
// wrapped with what it said.
func (f *Fleet) Drover(ctx context.Context, args ...string) (string, error) {
	return f.DroverIn(ctx, "", args...)
}

// DroverIn is Drover with a standard input.
func (f *Fleet) DroverIn(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(f.Bin, "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG="+f.Path("config"))
	cmd.Stdin = strings.NewReader(in)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("drover %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// StartHub starts every member and writes the CLI's config. Members that were there before are started all at once, since none
// serves before most of them run; new ones come in turn, the first as a new hub and the others by joining it.
func (f *Fleet) StartHub(ctx context.Context) error {
	for i, m := range f.Members {
		if f.new(m) {
			continue
		}
		if err := f.LaunchMember(ctx, i); err != nil {
			return err
		}
	}
	for i := range f.Members {
		if err := f.StartMember(ctx, i); err != nil {
			return err
		}
	}
	config, err := f.Drover(ctx, "kubeconfig")
	if err != nil {
		return err
	}
	return os.WriteFile(f.Path("config"), []byte(config), 0o600)
}

// StartMember starts one member, new or again, and waits until it serves.
func (f *Fleet) StartMember(ctx context.Context, i int) error {
	if err := f.LaunchMember(ctx, i); err != nil {
		return err
	}
	m := f.Members[i]
	return f.Until(ctx, m.Name, m.Name+" is ready", func() error {
		if err := f.adoptConfig(m); err != nil {
			return err
		}
		_, err := f.Drover(ctx, "--server", "https://"+m.API, "get", "devices")
		return err
	})
}

// new tells whether a member has yet to be born.
func (f *Fleet) new(m Member) bool {
	_, err := os.Stat(f.Path("hub", m.Name, "member.json"))
	return errors.Is(err, os.ErrNotExist)
}

// LaunchMember starts one member's process without waiting for it to serve.
func (f *Fleet) LaunchMember(ctx context.Context, i int) error {
	m := f.Members[i]
	dir := f.Path("hub", m.Name)
	args := append([]string{"--dir", dir}, f.HubArgs...)
	if f.new(m) {
		if err := errors.Join(Free(m.API), Free(m.Peer)); err != nil {
			return err
		}
		args = append(args, "--name", m.Name, "--api", m.API, "--peer", m.Peer)
		if i == 0 {
			args = append(args, "--init")
		} else {
			token, err := f.Token(ctx, "--for", "hub")
			if err != nil {
				return err
			}
			args = append(args, "--join", token, "--server", "https://"+f.Members[0].API)
		}
	}
	return f.Start(Spec{Name: m.Name, Path: filepath.Join(f.Bin, "drover-hub"), Args: args})
}

// adoptConfig takes the config that the first member wrote at its birth until the fleet has one of its own.
func (f *Fleet) adoptConfig(m Member) error {
	if _, err := os.Stat(f.Path("config")); err == nil {
		return nil
	}
	b, err := os.ReadFile(f.Path("hub", m.Name, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	return os.WriteFile(f.Path("config"), b, 0o600)
}

// Token makes a join token and leaves it in a file, as a secret should not stand in a command line.
func (f *Fleet) Token(ctx context.Context, args ...string) (file string, err error) {
	token, err := f.Drover(ctx, append([]string{"token", "create"}, args...)...)
	if err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(f.Dir, "token-")
	if err != nil {
		return "", err
	}
	defer tmp.Close()
	_, err = tmp.WriteString(strings.TrimSpace(token))
	return tmp.Name(), err
}

// Links makes the network namespaces of all devices with a link for every address that a device needs, all open.
// They live in this process.
func (f *Fleet) Links() (map[string][]*Link, error) {
	links := map[string][]*Link{}
	for _, dev := range f.Devices {
		if err := AddNetns(f.Netns(dev)); err != nil {
			return links, err
		}
		addrs := []string{f.Registry}
		for _, m := range f.Members {
			addrs = append(addrs, m.API)
		}
		for _, addr := range addrs {
			l := NewLink(f.Netns(dev), addr)
			links[dev] = append(links[dev], l)
			if err := l.Mend(); err != nil {
				return links, err
			}
		}
	}
	return links, nil
}

// StartAgent starts the agent of a device, new or again.
func (f *Fleet) StartAgent(ctx context.Context, device string) error {
	data := f.Path("devices", device)
	args := append([]string{"--data", data, "--run", f.Path("run"), "--name", device, "--containerd", f.Path("c", "c.sock")}, f.AgentArgs...)
	for _, m := range f.Members {
		args = append(args, "--hub", "https://"+m.API)
	}
	if _, err := os.Stat(filepath.Join(data, "identity")); errors.Is(err, os.ErrNotExist) {
		token, err := f.Token(ctx, "--label", "site=lab")
		if err != nil {
			return err
		}
		args = append(args, "--token", token)
	}
	return f.Start(Spec{Name: device, Path: filepath.Join(f.Bin, "drover-agent"), Args: args, Netns: f.Netns(device)})
}

// Ready waits until a device is Ready in the hub's eyes.
func (f *Fleet) Ready(ctx context.Context, device string) error {
	return f.Until(ctx, device, "device "+device+" is Ready", func() error {
		_, err := f.Drover(ctx, "wait", "--for", "condition=Ready", "--timeout", "2s", "device/"+device)
		return err
	})
}

// StartContainerd starts the fleet's containerd unless it still runs.
func (f *Fleet) StartContainerd(ctx context.Context) (*Containerd, error) {
	if p := f.Procs["containerd"]; p != nil && p.Alive() {
		return &Containerd{Dir: f.Path("c"), Process: p}, nil
	}
	c, err := StartContainerd(ctx, f.Path("c"))
	if c.Process != nil {
		f.Procs["containerd"] = c.Process
		err = errors.Join(err, f.save())
	}
	return c, err
}

// Down removes everything, going on past what fails, so that one stuck part does not keep the rest. The folder stays.
func (f *Fleet) Down(ctx context.Context) error {
	var errs []error
	for name, p := range f.Procs {
		if name != "containerd" {
			errs = append(errs, p.Stop(ctx, 10*time.Second))
		}
	}
	if p := f.Procs["containerd"]; p != nil {
		errs = append(errs, (&Containerd{Dir: f.Path("c"), Process: p}).Remove(ctx))
	}
	for _, dev := range f.Devices {
		errs = append(errs, DeleteNetns(f.Netns(dev)))
	}
	errs = append(errs, UnmountBelow(f.Dir))
	return errors.Join(errs...)
}
