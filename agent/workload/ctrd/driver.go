package ctrd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/agent/workload/logfile"
)

// Config of a Driver. Socket, Device and Dir are required.
type Config struct {
	Socket      string   // of containerd; default /run/containerd/containerd.sock
	Device      string   // name of this device: the namespace and the labels follow from it
	Dir         string   // for volumes, logs and pipes; on a disk, owned by one agent
	Run         string   // for files with tokens, each volume in memory of its own; default /run/drover
	Snapshotter string   // default overlayfs
	Platform    string   // as linux/arm/v6; default: this machine's
	PlainHTTP   []string // registries (host or host:port) reached without TLS; loopback ones are anyway
	InitBinary  string   // the agent's own static binary, for containers with secrets
	MemoryLimit bool     // the kernel enforces memory limits; otherwise they are left out of the spec
	LogLimit    int64    // bytes of one log file; 0: logfile.DefaultLimit
	Log         *slog.Logger

	// ClientOptions are added to the client's.
	ClientOptions []containerd.Opt
}

// Driver implements workload.Driver.
type Driver struct {
	cfg     Config
	client  *containerd.Client
	matcher platforms.MatchComparer
	logs    logfile.Dir
	execs   atomic.Int64 // names probes apart
}

var _ workload.Driver = (*Driver)(nil)

// Namespace is the containerd namespace of a device.
func Namespace(device string) string {
	s := notNamespace.ReplaceAllString(strings.ToLower(device), "-")
	return "drover-" + strings.Trim(s, "-")
}

var notNamespace = regexp.MustCompile(`[^a-z0-9]+`)

// New makes a Driver. It does not need containerd to be up.
func New(cfg Config) (*Driver, error) {
	var errs []error
	if cfg.Device == "" {
		errs = append(errs, errors.New("ctrd config: Device is not set"))
	}
	if !filepath.IsAbs(cfg.Dir) {
		errs = append(errs, fmt.Errorf("ctrd config: Dir %q is not an absolute path", cfg.Dir))
	}
	if cfg.Run == "" {
		cfg.Run = "/run/drover"
	}
	if !filepath.IsAbs(cfg.Run) {
		errs = append(errs, fmt.Errorf("ctrd config: Run %q is not an absolute path", cfg.Run))
	}
	if cfg.Socket == "" {
		cfg.Socket = "/run/containerd/containerd.sock"
	}
	if cfg.Snapshotter == "" {
		cfg.Snapshotter = "overlayfs"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	// The client logs through a logger of its own; what matters comes back as errors.
	errs = append(errs, log.SetLevel("fatal"))
	matcher := platforms.Default()
	if cfg.Platform != "" {
		p, err := platforms.Parse(cfg.Platform)
		if err != nil {
			errs = append(errs, fmt.Errorf("ctrd config: platform: %w", err))
		}
		matcher = platforms.Only(p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	opts := append([]containerd.Opt{
		containerd.WithDefaultNamespace(Namespace(cfg.Device)),
		containerd.WithDefaultPlatform(matcher),
		containerd.WithDefaultRuntime(runtimeName),
		containerd.WithTimeout(2 * time.Second), // and so the longest pause between two attempts to connect
	}, cfg.ClientOptions...)
	client, err := containerd.New(cfg.Socket, opts...)
	if err != nil {
		return nil, fmt.Errorf("containerd at %s: %w", cfg.Socket, err)
	}
	return &Driver{cfg: cfg, client: client, matcher: matcher,
		logs: logfile.Dir{Root: filepath.Join(cfg.Dir, "logs"), Limit: cfg.LogLimit}}, nil
}

const runtimeName = "io.containerd.runc.v2"

// Close ends the connection. Containers run on.
func (d *Driver) Close() error { return d.client.Close() }

// Version names the runtime and its version.
func (d *Driver) Version(ctx context.Context) (string, error) {
	v, err := d.client.Version(ctx)
	if err != nil {
		return "", wrap("version", err)
	}
	return "containerd " + v.Version, nil
}

// RotateLogs rotates logs that are too large, every interval, until ctx ends.
func (d *Driver) RotateLogs(ctx context.Context, interval time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := d.logs.Rotate(); err != nil {
				d.cfg.Log.Warn("log rotation", "err", err)
			}
		}
	}
}

// Forget implements workload.Lifecycle.
func (d *Driver) Forget(_ context.Context, uid string) error {
	if err := d.logs.Forget(uid); err != nil { // also checks uid
		return err
	}
	if err := os.RemoveAll(d.volumeDir(uid)); err != nil {
		return fmt.Errorf("volumes of %s: %w", uid, err)
	}
	return d.forgetTokens(uid)
}

func (d *Driver) volumeDir(uid string) string { return filepath.Join(d.cfg.Dir, "volumes", uid) }
func (d *Driver) pipePath(id string) string   { return filepath.Join(d.cfg.Dir, "pipes", id) }

// wrap adds what was being done, and tells a daemon that is away from everything else.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if errdefs.IsUnavailable(err) {
		return fmt.Errorf("%s: %w: %w", what, workload.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
