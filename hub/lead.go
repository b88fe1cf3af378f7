package hub

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/controllers"
	"github.com/drover-fleet/drover/controllers/presence"
	"github.com/drover-fleet/drover/hub/metrics"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/sched"
)

// lead runs the controllers and the scheduler for each term of office that this member wins.
func (h *Hub) lead(ctx context.Context) error {
	attempts := retry.Attempts{Policy: retry.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}, Random: random}
	for ctx.Err() == nil { // at the end of ctx this member may lead still
		changed := h.replica.LeadershipChanged()
		term, leads := h.replica.Leadership()
		var pause <-chan time.Time
		if leads {
			if err := h.office(ctx, term); err != nil {
				wait := attempts.Failed(err)
				h.log.Error("controllers ended; they start again", "term", term, "err", err, "retry_in", wait)
				pause = time.After(wait)
			} else {
				attempts.Succeeded()
				continue // the term is over, or ctx
			}
		}
		select {
		case <-changed:
		case <-pause:
		case <-ctx.Done():
		}
	}
	return nil
}

// office runs everything that only the leader does, for one term. Every write carries the term, so that one of an earlier
// term is refused at apply, whatever the timing here.
func (h *Hub) office(ctx context.Context, term uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.waitTermOver(ctx, term)
		cancel()
	}()
	h.log.Info("this member leads", "term", term)
	kept := make(chan error, 2)
	go func() { kept <- h.upkeep.Lead(ctx, term) }()
	go func() { kept <- h.leadRotation(ctx, term) }()
	d := controllers.Deps{
		Client: h.registry.As(registry.Actor{Name: "controller:hub", Term: term}),
		As: func(controller string) client.Client {
			return h.registry.As(registry.Actor{Name: "controller:" + controller, Term: term})
		},
		Now: time.Now, Random: random, Logger: h.log, Resolver: h.resolver,
		Relisted: h.metrics.Relisted(metrics.UserControllers),
		Presence: presence.Config{Contacts: h.contacts, Limits: h.presenceLimits(), Member: h.id.Name},
	}
	err := controllers.Run(ctx, d, func(informers *cache.Set) controllers.Runner {
		return sched.New(sched.Config{
			Client: h.registry.As(registry.Actor{Name: "controller:scheduler", Term: term}), Informers: informers, Now: time.Now, Random: random, Logger: h.log,
		})
	})
	over := ctx.Err() != nil
	cancel()
	<-ended
	err = errors.Join(err, <-kept, <-kept)
	if over {
		h.log.Info("this member leads no more", "term", term)
		return nil
	}
	return err
}

func (h *Hub) waitTermOver(ctx context.Context, term uint64) {
	for {
		changed := h.replica.LeadershipChanged()
		if now, leads := h.replica.Leadership(); !leads || now != term {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// handOver makes another member the leader before this one ends, so that nobody waits for an election.
func (h *Hub) handOver() {
	s := h.node.Status()
	if s.Leader != s.ID || s.Leader == 0 {
		return
	}
	var best consensus.Member
	for _, m := range s.Members {
		p := s.Progress[m.ID]
		if m.ID != s.ID && !m.Learner && p.Active && (best.ID == 0 || p.Match > s.Progress[best.ID].Match) {
			best = m
		}
	}
	if best.ID == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	if err := h.node.TransferLeader(ctx, best.ID); err != nil {
		h.log.Info("leadership not handed over; the others elect a leader", "to", best.Name, "err", err)
	}
}

// presenceLimits follow the interval at which devices are asked to call: late is one and a bit, offline two and a bit.
func (h *Hub) presenceLimits() presence.Limits {
	l := h.cfg.Presence
	if l.Late == 0 {
		l.Late = h.cfg.PollHold + h.cfg.PollHold/10
	}
	if l.Offline == 0 {
		l.Offline = 2*h.cfg.PollHold + h.cfg.PollHold/10
	}
	return l
}

// quietTLS keeps handshakes that strangers and scanners break off at debug level.
func (h *Hub) quietTLS() *log.Logger {
	return log.New(tlsWriter{h.log, h.failedHandshake}, "", 0)
}

type tlsWriter struct {
	l      *slog.Logger
	failed func(source, why string)
}

func (w tlsWriter) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if _, rest, ok := strings.Cut(line, "TLS handshake error from "); ok {
		w.l.Debug("connection refused", "err", line)
		source, why, _ := strings.Cut(rest, ": ")
		w.failed(source, why)
	} else {
		w.l.Warn("http server", "err", line)
	}
	return len(p), nil
}
