package side

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// Row is one kind of load and the figures that it gives.
type Row struct {
	Name     string
	Spec     load.Spec
	PeerSpec *load.Spec // what the peer is given instead
	OnLeader bool       // one client: where it is connected decides, so both are connected to the leader
	Rate     float64    // aims for the ratio of ours to the peer's; 0 = none
	P50, P99 float64
	Limit    float64 // aim for our median alone, in milliseconds; 0 = none
	Cost     bool    // give processor time and disk bytes of an operation too
	Quick    bool    // belongs to the short form
	API      bool    // ours by the HTTPS API
	Alone    bool    // there is no peer
	Per      float64 // what one operation counts for; 0 = 1
}

// Lengths of one run of a row.
type Lengths struct {
	Warm, Measure time.Duration
	Rounds        int
}

// LengthsOf are three runs of three seconds each, or of one in the short form.
func LengthsOf(quick bool) Lengths {
	if quick {
		return Lengths{300 * time.Millisecond, time.Second, 3}
	}
	return Lengths{time.Second, 3 * time.Second, 3}
}

// Bench collects samples of both sides.
type Bench struct {
	Ours, Peer *Side
	API        *Side // ours by another door
	Len        Lengths
	all        []*report.Samples // in the order of the table
}

// Figures are what was measured, in the order in which it was.
func (b *Bench) Figures() []report.Figure {
	out := make([]report.Figure, 0, len(b.all))
	for _, s := range b.all {
		out = append(out, s.Figure("etcd"))
	}
	return out
}

// Add makes a figure for the table.
func (b *Bench) Add(name, unit string, aim float64, less bool) *report.Samples {
	s := &report.Samples{Name: name, Unit: unit, Aim: aim, Less: less}
	b.all = append(b.all, s)
	return s
}

// sight is what one run of a row showed.
type sight struct {
	load.Result
	cpu, disk float64 // of the members, for one operation: microseconds, bytes a member
}

// Row runs both sides in turn, the one that begins alternating.
func (b *Bench) Row(ctx context.Context, r Row) error {
	rate, p50 := b.Add(r.Name, "1/s", r.Rate, false), b.Add(r.Name+", p50", "ms", r.P50, true)
	if r.Limit > 0 {
		p50.Aim, p50.Alone = r.Limit, true
	}
	p99 := b.Add(r.Name+", p99", "ms", r.P99, true)
	var cpu, disk *report.Samples
	if r.Cost {
		cpu = b.Add(r.Name+", members' processor time", "us/op", 0, true)
		disk = b.Add(r.Name+", written to disk a member", "B/op", 0, true)
		if !r.API {
			disk.Aim = 0.8
		}
	}
	for round := range b.Len.Rounds {
		for turn := range 2 {
			mine := (round+turn)%2 == 0
			if r.Alone && !mine {
				continue
			}
			s, spec := b.sideOf(r, mine)
			spec.Run = fmt.Sprintf("%s-%d", s.Name, round)
			got, err := b.once(ctx, s, r, spec)
			if err != nil {
				return err
			}
			per := 1.0
			if r.Per > 0 && spec.Op == load.OpBatch {
				per = r.Per
			}
			rate.Keep(mine, got.Rate()*per)
			p50.Keep(mine, got.P50)
			p99.Keep(mine, got.P99)
			if r.Cost {
				cpu.Keep(mine, got.cpu)
				disk.Keep(mine, got.disk)
			}
		}
	}
	return nil
}

func (b *Bench) sideOf(r Row, mine bool) (*Side, load.Spec) {
	switch {
	case mine && r.API:
		return b.API, r.Spec
	case mine:
		return b.Ours, r.Spec
	case r.PeerSpec != nil:
		return b.Peer, *r.PeerSpec
	}
	return b.Peer, r.Spec
}

func (b *Bench) once(ctx context.Context, s *Side, r Row, spec load.Spec) (sight, error) {
	spec.Warm, spec.Measure = b.Len.Warm, b.Len.Measure
	if r.OnLeader {
		i, err := s.Leader(ctx)
		if err != nil {
			return sight{}, err
		}
		spec.Endpoints = []string{s.Endpoints[i]}
	}
	before, err := s.Usage()
	if err != nil {
		return sight{}, err
	}
	got, err := s.Run(ctx, spec)
	if err != nil {
		return sight{}, err
	}
	if got.Ops == 0 {
		return sight{}, fmt.Errorf("%s: nothing ended in the measured time: %d errors, the first: %.300s", s.Name, got.Errors, got.Error)
	}
	after, err := s.Usage()
	if err != nil {
		return sight{}, err
	}
	note := ""
	if got.Errors > 0 {
		note = fmt.Sprintf("; %d errors, the first: %.300s", got.Errors, got.Error)
	}
	fmt.Fprintf(os.Stderr, "%-58s %-6s %9.0f/s  p50 %8.2f  p99 %8.2f ms  load process %.1f cpu%s\n",
		r.Name, s.Name, got.Rate(), got.P50, got.P99, got.CPU/got.Seconds, note)
	total := float64(max(1, got.Total))
	return sight{Result: got, cpu: (after.CPU - before.CPU) / total * 1e6, disk: (after.Written - before.Written) / total / Members}, nil
}
