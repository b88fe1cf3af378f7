package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// bench collects samples of both sides.
type bench struct {
	ours, peer *side
	api        *side // ours by another door
	len        lengths
	all        []*report.Samples // in the order of the table
}

func (b *bench) figures() []report.Figure {
	out := make([]report.Figure, 0, len(b.all))
	for _, s := range b.all {
		out = append(out, s.Figure("etcd"))
	}
	return out
}

func (b *bench) add(name, unit string, aim float64, less bool) *report.Samples {
	s := &report.Samples{Name: name, Unit: unit, Aim: aim, Less: less}
	b.all = append(b.all, s)
	return s
}

// sight is what one run of a row showed.
type sight struct {
	load.Result
	cpu, disk float64 // of the members, for one operation: microseconds, bytes a member
}

// row runs both sides in turn, the one that begins alternating.
func (b *bench) row(ctx context.Context, r row) error {
	rate, p50 := b.add(r.name, "1/s", r.rate, false), b.add(r.name+", p50", "ms", r.p50, true)
	p99 := b.add(r.name+", p99", "ms", r.p99, true)
	var cpu, disk *report.Samples
	if r.cost {
		cpu = b.add(r.name+", members' processor time", "us/op", 0, true)
		disk = b.add(r.name+", written to disk a member", "B/op", 0.8, true)
	}
	for round := range b.len.rounds {
		for turn := range 2 {
			mine := (round+turn)%2 == 0
			if r.api && !mine {
				continue
			}
			s, spec := b.sideOf(r, mine)
			got, err := b.once(ctx, s, r, spec)
			if err != nil {
				return err
			}
			per := 1.0
			if spec.Op == load.OpBatch {
				per = batchKeys
			}
			rate.Keep(mine, got.Rate()*per)
			p50.Keep(mine, got.P50)
			p99.Keep(mine, got.P99)
			if r.cost {
				cpu.Keep(mine, got.cpu)
				disk.Keep(mine, got.disk)
			}
		}
	}
	return nil
}

func (b *bench) sideOf(r row, mine bool) (*side, load.Spec) {
	switch {
	case r.api:
		return b.api, r.spec
	case mine:
		return b.ours, r.spec
	case r.peerSpec != nil:
		return b.peer, *r.peerSpec
	}
	return b.peer, r.spec
}

func (b *bench) once(ctx context.Context, s *side, r row, spec load.Spec) (sight, error) {
	spec.Warm, spec.Measure = b.len.warm, b.len.measure
	if r.onLeader {
		i, err := s.leader(ctx)
		if err != nil {
			return sight{}, err
		}
		spec.Endpoints = []string{s.endpoints[i]}
	}
	before, err := s.usage()
	if err != nil {
		return sight{}, err
	}
	got, err := s.run(ctx, spec)
	if err != nil {
		return sight{}, err
	}
	after, err := s.usage()
	if err != nil {
		return sight{}, err
	}
	note := ""
	if got.Errors > 0 {
		note = fmt.Sprintf("; %d errors, the first: %.300s", got.Errors, got.Error)
	}
	fmt.Fprintf(os.Stderr, "%-58s %-6s %9.0f/s  p50 %8.2f  p99 %8.2f ms  load process %.1f cpu%s\n",
		r.name, s.name, got.Rate(), got.P50, got.P99, got.CPU/got.Seconds, note)
	total := float64(max(1, got.Total))
	return sight{Result: got, cpu: (after.CPU - before.CPU) / total * 1e6, disk: (after.Written - before.Written) / total / members}, nil
}

func (b *bench) memory(name string, aim float64) error {
	all, own := b.add(name, "MiB", aim, true), b.add(name+", without files", "MiB", 0, true)
	for _, mine := range []bool{true, false} {
		s := b.peer
		if mine {
			s = b.ours
		}
		u, err := s.usage()
		if err != nil {
			return err
		}
		all.Keep(mine, u.Resident)
		own.Keep(mine, u.Own)
	}
	return nil
}

// kills ends the leader by SIGKILL: how long until a put is taken again, and how long until the member that was started again
// takes one itself.
func (b *bench) kills(ctx context.Context) error {
	elect, open := b.add(killed, "ms", 0, true), b.add(restarted, "ms", 0, true)
	for range b.len.rounds {
		for _, mine := range []bool{true, false} {
			s := b.peer
			if mine {
				s = b.ours
			}
			took, back, err := s.killLeader(ctx)
			if err != nil {
				return fmt.Errorf("%s: kill the leader: %w", s.name, err)
			}
			fmt.Fprintf(os.Stderr, "%-58s %-6s next put %.0f ms, open %.0f ms\n", "kill -9 of the leader", s.name, ms(took), ms(back))
			elect.Keep(mine, ms(took))
			open.Keep(mine, ms(back))
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *side) killLeader(ctx context.Context) (elect, open time.Duration, err error) {
	i, err := s.leader(ctx)
	if err != nil {
		return 0, 0, err
	}
	var others []string
	for k, e := range s.endpoints {
		if k != i {
			others = append(others, e)
		}
	}
	began := time.Now()
	if err := s.procs(i).Kill(ctx); err != nil {
		return 0, 0, err
	}
	if _, err := s.run(ctx, load.Spec{Op: load.OpProbe, Endpoints: others, ValueBytes: 256}); err != nil {
		return 0, 0, err
	}
	elect = time.Since(began)
	open, err = s.again(ctx, i)
	return elect, open, err
}

// again starts a member and tells how long it took until a put through it was answered.
func (s *side) again(ctx context.Context, i int) (time.Duration, error) {
	began := time.Now()
	if err := s.restart(ctx, i); err != nil {
		return 0, err
	}
	_, err := s.run(ctx, load.Spec{Op: load.OpProbe, Endpoints: []string{s.endpoints[i]}, ValueBytes: 256})
	return time.Since(began), err
}

// openKeys is as many as a hub of ten thousand devices might hold, and more.
const openKeys = 1_000_000

// open fills both sides and starts a follower of each again and again.
func (b *bench) open(ctx context.Context) error {
	for _, s := range []*side{b.ours, b.peer} {
		if err := s.fill(ctx, openKeys); err != nil {
			return err
		}
	}
	err := b.memory(memoryMany, 0)
	took := b.add(manyKeys, "ms", 0, true)
	for range b.len.rounds {
		for _, mine := range []bool{true, false} {
			s := b.peer
			if mine {
				s = b.ours
			}
			d, reopened := s.reopen(ctx)
			if reopened != nil {
				return errors.Join(err, fmt.Errorf("%s: start again: %w", s.name, reopened))
			}
			fmt.Fprintf(os.Stderr, "%-58s %-6s %.0f ms\n", manyKeys, s.name, ms(d))
			took.Keep(mine, ms(d))
		}
	}
	return err
}

// reopen ends a follower by SIGKILL and starts it again.
func (s *side) reopen(ctx context.Context) (time.Duration, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return 0, err
	}
	i := (leader + 1) % members
	if err := s.procs(i).Kill(ctx); err != nil {
		return 0, err
	}
	return s.again(ctx, i)
}
