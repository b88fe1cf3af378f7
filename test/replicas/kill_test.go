package replicas

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rounds is how often a whole hub is killed; make kills ROUNDS=n sets it.
var rounds = flag.Int("rounds", 20, "rounds of SIGKILL")

// childVariable makes the test binary a hub that works until it is killed.
const childVariable = "DROVER_REPLICAS_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		var size int
		var dir string
		_, err := fmt.Sscanf(spec, "%d %q", &size, &dir)
		if err == nil {
			err = live(dir, size, os.Stdin, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestF39KilledInTheMiddleOfAnythingMembersHoldTheSameAndLoseNothing kills all three members at once, again and again, while they
// apply, compact history, rewrite their files and write checkpoints. Every start succeeds, every member holds the same by hash and
// by what is in its file, what was acknowledged is there, and nothing is there twice.
func TestF39KilledInTheMiddleOfAnythingMembersHoldTheSameAndLoseNothing(t *testing.T) {
	killed(t, 3, *rounds)
}

// TestALoneMemberKilledInTheMiddleOfAnythingLosesNothing: it has no majority to wait for, only its own disk.
func TestALoneMemberKilledInTheMiddleOfAnythingLosesNothing(t *testing.T) {
	killed(t, 1, *rounds/2)
}

func killed(t *testing.T, size, rounds int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(testSeed(t), 0)) //nolint:gosec // a schedule
	dir := t.TempDir()
	phases := []string{"apply", "compact", "file", "checkpoint"}
	acked := make([]int, houseWriters)
	began := time.Now()
	for round := range rounds {
		phase := phases[round%len(phases)]
		if err := killOnce(dir, size, phase, rng, acked); err != nil {
			t.Fatalf("round %d, killed in %s: %v", round, phase, err)
		}
		if (round+1)%100 == 0 {
			t.Logf("%d rounds in %v, %v writes acknowledged", round+1, time.Since(began).Round(time.Second), acked)
		}
	}
	if err := killOnce(dir, size, "apply", rng, acked); err != nil {
		t.Fatalf("the last start: %v", err)
	}
	total := 0
	for _, n := range acked {
		total += n
	}
	if total < rounds {
		t.Errorf("got %v writes acknowledged in %d rounds, want more to lose", acked, rounds)
	}
}

// testSeed is DROVER_SEED, or a new one.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // a schedule
	if s := os.Getenv("DROVER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the schedule is that of DROVER_SEED=%d", seed)
	return seed
}

// killOnce starts the hub, holds what it says of itself against what was acknowledged so far, lets it work and kills it.
func killOnce(dir string, size int, phase string, rng *rand.Rand, acked []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*startPatience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %q", childVariable, size, dir))
	var said bytes.Buffer
	child.Stderr = &said
	in, errIn := child.StdinPipe()
	out, errOut := child.StdoutPipe()
	if err := errors.Join(errIn, errOut, child.Start()); err != nil {
		return err
	}
	err := drive(bufio.NewScanner(out), acked, func() error {
		_, err := fmt.Fprintln(in, phase)
		return err
	}, func() error {
		kill := time.NewTimer(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		<-kill.C
		return child.Process.Kill()
	})
	if ended := child.Wait(); err == nil && child.ProcessState.ExitCode() != -1 {
		err = fmt.Errorf("it ended by itself: %w", ended)
	}
	if err != nil {
		return fmt.Errorf("%w: %.2000s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// drive reads what the hub says to its end.
func drive(said *bufio.Scanner, acked []int, ask, kill func() error) error {
	up := false
	for said.Scan() {
		var i, n int
		var version uint64
		switch line := said.Text(); {
		case line == "up":
			up = true
			if err := ask(); err != nil {
				return err
			}
		case line == "begin":
			if err := kill(); err != nil {
				return err
			}
		case scans(line, "holds %d %d %d", &i, &n, &version):
			// One write of each writer may have been on its way when it was killed.
			if n < acked[i] || n > acked[i]+1 || version != uint64(n) { //nolint:gosec // not negative
				return fmt.Errorf("writer %d: got %d at version %d after %d was acknowledged, want that or the next, each written once", i, n, version, acked[i])
			}
			acked[i] = n // it was shown: from now on it must stay too
		case scans(line, "ack %d %d", &i, &n):
			acked[i] = n
		default:
			return fmt.Errorf("it says %q", line)
		}
	}
	if !up {
		return errors.New("it did not start")
	}
	return said.Err()
}

func scans(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}
