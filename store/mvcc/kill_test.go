package mvcc

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// childVariable makes the test binary a process that applies entries until it is killed.
const childVariable = "DROVER_STORE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		seed, err := strconv.ParseUint(os.Getenv("DROVER_SEED"), 10, 64)
		if err == nil {
			err = applyForEver(path, seed)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// applyForEver takes up where the file ends and says each index once a checkpoint holds it. Now and then it opens a copy and
// restores it to itself, so that kills fall into a swap too.
func applyForEver(path string, seed uint64) error {
	s, err := Open(path, Options{CheckpointBytes: 16 << 10})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, s.Applied()))
	m := replayed(seed, s.Applied())
	for index := s.Applied() + 1; ; {
		var entries []Entry
		for range 1 + rng.IntN(4) {
			e, commands := entryFor(seed, index, m)
			for _, g := range commands {
				m.apply(g.command, e.Term)
			}
			entries = append(entries, e)
			index++
		}
		if _, err := s.Apply(entries); err != nil {
			return err
		}
		fmt.Println(s.Synced())
		if rng.IntN(8) > 0 {
			continue
		}
		at, r, err := s.Snapshot()
		if err != nil {
			return err
		}
		if err := s.Restore(at, r); err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
}

func replayed(seed, upTo uint64) *model {
	m := newModel()
	for index := uint64(1); index <= upTo; index++ {
		e, commands := entryFor(seed, index, m)
		for _, g := range commands {
			m.apply(g.command, e.Term)
		}
	}
	return m
}

func TestKilledAtAnyPointItHoldsExactlyTheEntriesUpToApplied(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	path := filepath.Join(t.TempDir(), "state")
	for round := range 10 {
		acknowledged := runAndKill(t, path, seed, rng)
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if s.Applied() < acknowledged {
			t.Fatalf("round %d: got applied index %d, want at least the acknowledged %d", round, s.Applied(), acknowledged)
		}
		m := replayed(seed, s.Applied())
		checkReads(t, s, m, rng)
		checkJournal(t, s, m, rng)
		if err := s.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// The same entries without any kill come to the same contents, remembered sequences included.
	s, straight := openAt(t, path), openAt(t, path+"-straight")
	m := newModel()
	for index := uint64(1); index <= s.Applied(); index++ {
		e, commands := entryFor(seed, index, m)
		for _, g := range commands {
			m.apply(g.command, e.Term)
		}
		applied(t, straight, []Entry{e})
	}
	compareHashes(t, s, straight)
}

// runAndKill lets a child apply and kills it a moment after it has acknowledged some entries.
func runAndKill(t *testing.T, path string, seed uint64, rng *rand.Rand) (acknowledged uint64) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+path, fmt.Sprintf("DROVER_SEED=%d", seed))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 1 + rng.IntN(8) {
		if !lines.Scan() {
			break
		}
	}
	// Anywhere within the next few commits.
	timer := time.NewTimer(time.Duration(rng.IntN(3000)) * time.Microsecond)
	<-timer.C
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ok := true; ok; ok = lines.Scan() {
		if n, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
			acknowledged = max(acknowledged, n)
		}
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != -1 {
		t.Fatalf("child ended by itself: %v", err)
	}
	return acknowledged
}
