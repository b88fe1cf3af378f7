// Command drover-agent runs on a device: it keeps the device's containers as the hub last said, hub or no hub.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/agent/workload/secretenv"
)

var version = "unknown" // set by the build

const (
	exitError = 1
	exitUsage = 2
	// What Go's heap may use before it is collected harder, bytes. Most of the agent's memory is its program text.
	memoryLimit = 48 << 20
	gcPercent   = 40
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == secretenv.Mode { // in a container: see package secretenv
		// Only of this program: what it becomes is dumped, or not, as its image and its user want it.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		code, err := secretenv.Init(os.Args[2:])
		fmt.Fprintln(os.Stderr, "drover: start in container:", err)
		os.Exit(code)
	}
	if err := keepMemory(); err != nil {
		fmt.Fprintln(os.Stderr, "drover-agent:", err)
		os.Exit(exitError)
	}
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(gcPercent)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "version" || args[0] == "--version") {
		fmt.Fprintf(stdout, "drover-agent %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		return 0
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "drover-agent:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level}))
	if err := serve(ctx, o, log); err != nil && ctx.Err() == nil {
		fmt.Fprintln(stderr, "drover-agent:", err)
		return exitError
	}
	return 0
}

// options are the command line.
type options struct {
	data, name, token    string
	run                  string
	hubs                 list
	socket, snapshotter  string
	platform, registries string
	bootIDFile           string
	level                slog.Level
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("drover-agent", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.data, "data", "/var/lib/drover", "`directory` for everything that the agent keeps")
	f.StringVar(&o.run, "run", "/run/drover", "`directory` for what must not outlive a boot: workloads' tokens, in memory")
	f.StringVar(&o.name, "name", "", "this device's `name`, as pi-07; default: its host name")
	f.Var(&o.hubs, "hub", "`URL` of a hub member, as https://hub1:7443; repeat it for each")
	f.StringVar(&o.token, "token", "", "join `token`, or a file that holds it; needed once")
	f.StringVar(&o.socket, "containerd", "/run/containerd/containerd.sock", "containerd's `socket`")
	f.StringVar(&o.snapshotter, "snapshotter", "overlayfs", "containerd `snapshotter`: overlayfs or native")
	f.StringVar(&o.platform, "platform", "", "`platform` to take images for, as linux/arm/v6; default: found out")
	f.StringVar(&o.registries, "registries", "", "JSON `file` with what is special about registries: {\"plainHTTP\": [\"host:port\"]}")
	f.StringVar(&o.bootIDFile, "boot-id-file", "", "`file` that names the present boot; default: the kernel's")
	level := f.String("log-level", "info", "debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is not understood: everything is said by flags; see --help", f.Arg(0))
	}
	if err := o.level.UnmarshalText([]byte(*level)); err != nil {
		return o, fmt.Errorf("--log-level %q: want debug, info, warn or error", *level)
	}
	for _, h := range o.hubs {
		if !strings.HasPrefix(h, "https://") {
			return o, fmt.Errorf("--hub %q: want a URL as https://HOST:PORT", h)
		}
	}
	var err error
	if o.data, err = filepath.Abs(o.data); err == nil {
		o.run, err = filepath.Abs(o.run)
	}
	return o, err
}

// clock gives the time since boot, suspension included, and the wall clock.
func clock() (time.Duration, time.Time) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("drover-agent: the kernel has no boot clock: %v", err)) // every Linux since 2.6.39 has
	}
	return time.Duration(ts.Nano()), time.Now()
}

func random(n int64) int64 { return rand.Int64N(n) }

// lock makes sure that one agent owns the directory. The one before may still be ending: it is waited for. The directory itself is
// locked, which needs neither space nor a disk that can be written.
func lock(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another drover-agent uses %s", dir), f.Close())
		}
	}
}
