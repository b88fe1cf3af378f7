package mvcc

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drover-fleet/drover/store"
)

// filled makes a state file of so many keys of 256 bytes each.
func filled(b *testing.B, keys int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "state")
	s, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	index := uint64(1)
	apply := func(c *store.Command) {
		if _, err := s.Apply([]Entry{{Index: index, Term: 1, Commands: [][]byte{encoded(c, index, 0).raw}}}); err != nil {
			b.Fatal(err)
		}
		index++
	}
	apply(&store.Command{NewEpoch: &store.Epoch{Number: 1, ID: "bench"}})
	for at := 0; at < keys; {
		c := &store.Command{}
		for ; len(c.Ops) < 10_000 && at < keys; at++ {
			c.Ops = append(c.Ops, store.Op{Type: store.OpPut, Key: fmt.Sprintf("assignments/default/%08d", at), Value: make([]byte, 256)})
		}
		apply(c)
	}
	if err := s.Checkpoint(); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkOpenAMillionKeys is the time until a member serves reads.
func BenchmarkOpenAMillionKeys(b *testing.B) {
	path := filled(b, 1_000_000)
	for b.Loop() {
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommitUnderChurn puts and deletes with a reader held open, and reports the slowest hundredth of commits at the start
// and at the end.
func BenchmarkCommitUnderChurn(b *testing.B) {
	s, err := Open(filled(b, 10_000), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	held, err := s.begin()
	if err != nil {
		b.Fatal(err)
	}
	defer held.close()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		index := s.Applied() + 1
		key := fmt.Sprint("churn/", i%500)
		e := Entry{Index: index, Term: 2, Commands: [][]byte{
			encoded(&store.Command{Ops: []store.Op{put(key, "value")}}, index, 0).raw, encoded(&store.Command{Ops: []store.Op{del(key)}}, index, 1).raw,
		}}
		began := time.Now()
		if _, err := s.Apply([]Entry{e}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	p99 := func(d []time.Duration) float64 {
		d = slices.Clone(d)
		slices.Sort(d)
		return float64(d[len(d)*99/100].Microseconds())
	}
	if n := len(took) / 5; n > 0 {
		b.ReportMetric(p99(took[:n]), "µs-p99-first-fifth")
		b.ReportMetric(p99(took[len(took)-n:]), "µs-p99-last-fifth")
	}
}
