package chaos

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/test/lab"
)

const members = 3

// house is three members with everything that they stand on.
type house struct {
	dir, binary string
	net         *network
	members     []*member
	tls         *tls.Config // of a hub member, as clients here show it
}

// member is one process with its network namespace and its disk.
type member struct {
	name, place string
	api, peer   string
	mount       string // where it sees its directory
	backing     string // where that is
	disk        *disk
	house       *house

	mu      sync.Mutex // guards below
	proc    *lab.Process
	life    int  // starts so far
	excused bool // it may end by itself: its disk failed since it was started
}

// build makes the places, cables and disks of a hub that is not there yet. close takes away whatever there is.
func newHouse(dir, binary string) (h *house, err error) {
	h = &house{dir: dir, binary: binary}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	addrs, err := freeAddrs(2 * members)
	if err != nil {
		return h, err
	}
	places := []string{outside}
	for i := range members {
		name := fmt.Sprintf("h%d", i+1)
		m := &member{
			name: name, place: fmt.Sprintf("drover-chaos-%d-%s", os.Getpid(), name), api: addrs[2*i], peer: addrs[2*i+1],
			mount: filepath.Join(dir, name), backing: filepath.Join(dir, "disk-"+name), house: h,
		}
		h.members = append(h.members, m)
		places = append(places, m.place)
		if err := lab.AddNetns(m.place); err != nil {
			return h, err
		}
		if m.disk, err = mountDisk(m.mount, m.backing); err != nil {
			return h, err
		}
	}
	h.net = newNetwork(places)
	return h, h.connect()
}

func (h *house) connect() error {
	var errs []error
	for _, m := range h.members {
		errs = append(errs, h.net.add(outside, m.place, m.api))
		for _, from := range h.members {
			if from != m {
				errs = append(errs, h.net.add(from.place, m.place, m.api), h.net.add(from.place, m.place, m.peer))
			}
		}
	}
	return errors.Join(errs...)
}

// close ends what runs and takes down what it stood on.
func (h *house) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var errs []error
	for _, m := range h.members {
		m.disk.heal()
		errs = append(errs, m.kill(ctx))
	}
	if h.net != nil {
		h.net.close()
	}
	for _, m := range h.members {
		errs = append(errs, m.disk.close(), lab.DeleteNetns(m.place))
	}
	return errors.Join(errs...)
}

// freeAddrs finds loopback addresses that nobody uses now.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// found makes the hub: the first member begins it, the others join in turn.
func (h *house) found(ctx context.Context) error {
	first := h.members[0]
	if err := first.start("--init", "--name", first.name, "--api", first.api, "--peer", first.peer); err != nil {
		return err
	}
	admin, err := h.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, m := range h.members[1:] {
		token, err := h.token(ctx, admin, m.name)
		if err != nil {
			return err
		}
		if err := m.start("--name", m.name, "--api", m.api, "--peer", m.peer, "--join", token, "--server", "https://"+first.api); err != nil {
			return err
		}
		err = lab.Until(ctx, m.name+" serves", func() error { return h.serves(ctx, m) })
		if err != nil {
			return fmt.Errorf("%w\n%s", err, m.tail(15))
		}
	}
	return nil
}

// admin waits for the first member to be born and reads by what it and the first admin are known.
func (h *house) admin(ctx context.Context) (*remote.Client, error) {
	first := h.members[0]
	err := lab.Until(ctx, "the hub is founded", func() error {
		_, err := os.Stat(filepath.Join(first.backing, "member.crt"))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, first.tail(15))
	}
	if h.tls, err = memberTLS(first.backing); err != nil {
		return nil, err
	}
	config, err := remote.LoadKubeconfig(filepath.Join(first.backing, "admin.kubeconfig"), "")
	if err != nil {
		return nil, err
	}
	return remote.New(config, remote.Options{})
}

// memberTLS is what a member shows others, read from its directory.
func memberTLS(dir string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "member.crt"), filepath.Join(dir, "member.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s/ca.crt holds no certificate", dir)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: roots, ServerName: wire.HubServerName}, nil
}

// token makes one by which a member may join.
func (h *house) token(ctx context.Context, c *remote.Client, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(h.members[0].backing, "ca.crt"))
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("ca.crt holds no certificate")
	}
	token, err := wire.NewToken(rand.Reader, block.Bytes, name)
	if err != nil {
		return "", err
	}
	o := &api.JoinToken{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "JoinToken"}, Metadata: api.ObjectMeta{Name: name},
		Spec: api.JoinTokenSpec{For: api.TokenForHub, Uses: 1, Expires: api.TimeOf(time.Now().Add(time.Hour)), SecretHash: token.SecretHash()},
	}
	err = lab.Until(ctx, "the hub makes tokens", func() error {
		_, err := c.Create(ctx, o, client.WriteOptions{})
		return err
	})
	return string(token.Reveal()), err
}

func (m *member) clock() string { return filepath.Join(m.house.dir, "clock-"+m.name) }

// step sets by how many seconds the member's wall clock is off.
func (m *member) step(seconds int64) error {
	tmp := m.clock() + ".tmp"
	if err := os.WriteFile(tmp, []byte(strconv.FormatInt(seconds, 10)), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, m.clock())
}

func (m *member) log() string { return filepath.Join(m.house.dir, m.name+".log") }

// start starts the process unless it runs.
func (m *member) start(args ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && m.proc.Alive() {
		return nil
	}
	p, err := lab.Start(lab.Spec{
		Name: m.name, Path: m.house.binary, Args: append([]string{"--dir", m.mount}, args...), Log: m.log(), Netns: m.place,
		Env: []string{clockVariable + "=" + m.clock()},
	})
	if err != nil {
		return err
	}
	m.proc, m.excused = p, false
	m.life++
	return nil
}

// kill ends the process as the kernel does that runs out of memory.
func (m *member) kill(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	err := m.proc.Kill(ctx)
	m.proc = nil
	return err
}

// stop asks the process to end, and fails if it does not end in time.
func (m *member) stop(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	if err := m.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := m.proc.Gone(ctx)
	m.proc = nil
	return err
}

func (m *member) signal(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	return m.proc.Signal(s)
}

// excuse allows the process to end by itself from now on until it is started again.
func (m *member) excuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.excused = true
}

// ended tells that the process was started, not killed since, and has ended all the same; excused whether it may.
func (m *member) ended() (ended, excused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc != nil && !m.proc.Alive(), m.excused
}

// lives is which life the member is in; zero while it is down.
func (m *member) lives() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil || !m.proc.Alive() {
		return 0
	}
	return m.life
}

// tail is the end of the process's log.
func (m *member) tail(lines int) string {
	b, err := os.ReadFile(m.log())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
