package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/drover-fleet/drover/test/bench/side"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// bench is what this command measures beside rows of load.
type bench struct{ *side.Bench }

func (b *bench) memory(name string, aim float64) error {
	all, own := b.Add(name, "MiB", aim, true), b.Add(name+", without files", "MiB", 0, true)
	for _, mine := range []bool{true, false} {
		s := b.Peer
		if mine {
			s = b.Ours
		}
		u, err := s.Usage()
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
	elect, open := b.Add(killed, "ms", 0, true), b.Add(restarted, "ms", 0, true)
	for range b.Len.Rounds {
		for _, mine := range []bool{true, false} {
			s := b.Peer
			if mine {
				s = b.Ours
			}
			took, back, err := killLeader(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: kill the leader: %w", s.Name, err)
			}
			fmt.Fprintf(os.Stderr, "%-58s %-6s next put %.0f ms, open %.0f ms\n", "kill -9 of the leader", s.Name, ms(took), ms(back))
			elect.Keep(mine, ms(took))
			open.Keep(mine, ms(back))
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func killLeader(ctx context.Context, s *side.Side) (elect, open time.Duration, err error) {
	i, err := s.Leader(ctx)
	if err != nil {
		return 0, 0, err
	}
	var others []string
	for k, e := range s.Endpoints {
		if k != i {
			others = append(others, e)
		}
	}
	began := time.Now()
	if err := s.Procs(i).Kill(ctx); err != nil {
		return 0, 0, err
	}
	if _, err := s.Run(ctx, load.Spec{Op: load.OpProbe, Endpoints: others, ValueBytes: 256}); err != nil {
		return 0, 0, err
	}
	elect = time.Since(began)
	open, err = again(ctx, s, i)
	return elect, open, err
}

// again starts a member and tells how long it took until a put through it was answered.
func again(ctx context.Context, s *side.Side, i int) (time.Duration, error) {
	began := time.Now()
	if err := s.Restart(ctx, i); err != nil {
		return 0, err
	}
	_, err := s.Run(ctx, load.Spec{Op: load.OpProbe, Endpoints: []string{s.Endpoints[i]}, ValueBytes: 256})
	return time.Since(began), err
}

// openKeys is as many as a hub of ten thousand devices might hold, and more.
const openKeys = 1_000_000

// open fills both sides and starts a follower of each again and again.
func (b *bench) open(ctx context.Context) error {
	for _, s := range []*side.Side{b.Ours, b.Peer} {
		if err := s.Fill(ctx, openKeys); err != nil {
			return err
		}
	}
	err := b.memory(memoryMany, 0)
	took := b.Add(manyKeys, "ms", 0, true)
	for range b.Len.Rounds {
		for _, mine := range []bool{true, false} {
			s := b.Peer
			if mine {
				s = b.Ours
			}
			d, reopened := reopen(ctx, s)
			if reopened != nil {
				return errors.Join(err, fmt.Errorf("%s: start again: %w", s.Name, reopened))
			}
			fmt.Fprintf(os.Stderr, "%-58s %-6s %.0f ms\n", manyKeys, s.Name, ms(d))
			took.Keep(mine, ms(d))
		}
	}
	return err
}

// reopen ends a follower by SIGKILL and starts it again.
func reopen(ctx context.Context, s *side.Side) (time.Duration, error) {
	leader, err := s.Leader(ctx)
	if err != nil {
		return 0, err
	}
	i := (leader + 1) % side.Members
	if err := s.Procs(i).Kill(ctx); err != nil {
		return 0, err
	}
	return again(ctx, s, i)
}
