// Command run simulates a hub and its fleet for many seeds, on all processors, and prints for each seed that shows a breach the
// command that replays it. It is what `make sim` runs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/drover-fleet/drover/test/sim"
)

type options struct {
	seeds   int
	first   uint64
	faults  time.Duration
	every   time.Duration
	devices int
	procs   int
	twice   bool
	log     bool
	worker  int // -1: not one
}

func main() {
	var o options
	flag.IntVar(&o.seeds, "seeds", 20, "how many seeds to run")
	flag.Uint64Var(&o.first, "first", 0, "first seed; 0 takes new ones")
	flag.DurationVar(&o.faults, "faults", time.Hour, "simulated time under faults, of each seed")
	flag.DurationVar(&o.every, "every", 45*time.Second, "mean between two faults of the hub, and between two of devices")
	flag.IntVar(&o.devices, "devices", 20, "devices of each fleet")
	flag.IntVar(&o.procs, "procs", runtime.NumCPU(), "processes at once: a seed takes one")
	flag.BoolVar(&o.twice, "twice", false, "run each seed twice and compare the traces")
	flag.BoolVar(&o.log, "log", false, "print what happens")
	flag.IntVar(&o.worker, "worker", -1, "internal: run the seeds of this process")
	flag.Parse()
	if o.first == 0 {
		o.first = 1 + rand.Uint64N(1<<40)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.worker >= 0 {
		return work(o)
	}
	return judge(ctx, o)
}

// work runs every procs-th seed and prints a report for each as a line of JSON.
func work(o options) error {
	debug.SetGCPercent(200)
	out := json.NewEncoder(os.Stdout)
	for i := o.worker; i < o.seeds; i += o.procs {
		cfg := sim.Config{Seed: o.first + uint64(i), Faults: o.faults, Every: o.every, Devices: o.devices}
		if o.log {
			cfg.Log = os.Stderr
		}
		r, err := sim.Run(cfg)
		if err == nil && o.twice {
			var again sim.Report
			if again, err = sim.Run(cfg); err == nil && again.Trace != r.Trace {
				err = fmt.Errorf("seed %d: trace %s, and %s at the second run", cfg.Seed, r.Trace, again.Trace)
			}
		}
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func judge(ctx context.Context, o options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t := total{o: o, begin: time.Now(), faults: map[string]int{}, others: map[string]int{}, breaches: map[string]int{}}
	var wg sync.WaitGroup
	for i := range o.procs {
		wg.Go(func() {
			if err := t.child(ctx, self, i); err != nil {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.errs = append(t.errs, err)
			}
		})
	}
	wg.Wait()
	t.print()
	if t.bad > 0 {
		t.errs = append(t.errs, fmt.Errorf("%d seeds show a breach", t.bad))
	}
	return errors.Join(t.errs...)
}

// child runs its share of the seeds in a process of its own, and takes its reports.
func (t *total) child(ctx context.Context, self string, n int) error {
	o := t.o
	cmd := exec.CommandContext(ctx, self, "-worker", fmt.Sprint(n), "-seeds", fmt.Sprint(o.seeds), "-first", fmt.Sprint(o.first),
		"-faults", o.faults.String(), "-every", o.every.String(), "-devices", fmt.Sprint(o.devices), "-procs", fmt.Sprint(o.procs),
		fmt.Sprintf("-twice=%t", o.twice), fmt.Sprintf("-log=%t", o.log))
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1") // one goroutine at a time: nothing to preempt it for
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = errors.Join(t.read(out), cmd.Wait())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return err
}

func (t *total) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r sim.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read a report: %w", err)
		}
		t.add(r)
	}
	return lines.Err()
}
