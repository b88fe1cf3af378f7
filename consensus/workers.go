package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// runAppender makes log steps durable, everything that waits in one transaction.
func (n *Node) runAppender(ctx context.Context) error {
	ride := rider{n: n}
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), ride.settle(true))
		case <-n.appender.ready:
		}
		works := n.appender.take()
		for len(works) > 0 {
			k := 0
			var acks []persistAck
			for k < len(works) && works[k].install == nil && works[k].reset == nil {
				ride.add(works[k].batch)
				if len(works[k].acks) > 0 {
					acks = append(acks, persistAck{gen: works[k].gen, acks: works[k].acks})
				}
				k++
			}
			special := k < len(works)
			if len(acks) > 0 || special {
				if err := ride.settle(special); err != nil {
					return err
				}
			}
			if special {
				ack, err := n.replace(ctx, works[k])
				if err != nil {
					return err
				}
				acks = append(acks, ack)
				k++
			}
			if len(acks) > 0 {
				n.post(func(in *input) { in.persisted = append(in.persisted, acks...) })
			}
			works = works[k:]
		}
	}
}

// rider holds steps that nobody needs to be durable: they go along with the next. A bare commit index is one: raft finds it again,
// and a follower is told it after every write.
type rider struct {
	n     *Node
	batch raftlog.Batch
	some  bool
}

func (r *rider) add(b raftlog.Batch) {
	r.batch.Merge(b)
	r.some = true
}

// settle makes what was added durable if the acknowledgement of any of it depends on that, or all is set.
func (r *rider) settle(all bool) error {
	if !r.some || !all && !r.batch.Urgent(r.n.log.Meta().Hard) {
		return nil
	}
	b := r.batch
	r.batch, r.some = raftlog.Batch{}, false
	return r.n.sync(b)
}

// sync makes a batch durable.
func (n *Node) sync(b raftlog.Batch) error {
	began := time.Now()
	if err := n.log.Append(b); err != nil {
		return err
	}
	size := uint64(0)
	for _, e := range b.Entries {
		size += entrySize(e)
	}
	n.observe.LogSynced(time.Since(began), len(b.Entries), int64(size))
	return nil
}

// replace does the two steps that begin a new log: a snapshot, or a new id.
func (n *Node) replace(ctx context.Context, w persistWork) (persistAck, error) {
	ack := persistAck{gen: w.gen, acks: w.acks}
	if w.reset != nil {
		ack.reset = true
		return ack, n.log.Reset(*w.reset, w.members)
	}
	if err := n.log.BeginInstall(w.install.seed); err != nil {
		return ack, err
	}
	job := applyJob{restore: &restoreJob{index: w.install.seed.Begin.Index, file: w.install.file, done: make(chan error, 1)}}
	n.applier.put(job)
	select {
	case err := <-job.restore.done:
		if err != nil {
			return ack, err
		}
	case <-ctx.Done():
		return ack, ctx.Err() // pending stays noted, and the next start sees how far the machine came
	}
	ack.installed = w.install.seed.Begin.Index
	return ack, n.log.FinishInstall(w.batch.Hard)
}

// applyJob is one of three things for the machine.
type applyJob struct {
	apply    *applyWork
	restore  *restoreJob
	snapshot chan<- openedSnapshot // has a slot
}

type restoreJob struct {
	index uint64
	file  string
	done  chan error // has a slot
}

// runApplier is the one goroutine that calls the machine. Everything that waits is applied in one call.
func (n *Node) runApplier(ctx context.Context) error {
	have := n.cfg.Applied
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.applier.ready:
		}
		jobs := n.applier.take()
		for len(jobs) > 0 {
			var works []applyWork
			for len(jobs) > 0 && jobs[0].apply != nil {
				works = append(works, *jobs[0].apply)
				jobs = jobs[1:]
			}
			if len(works) > 0 {
				var err error
				if have, err = n.apply(works, have); err != nil {
					return err
				}
				continue
			}
			job := jobs[0]
			jobs = jobs[1:]
			if job.snapshot != nil {
				job.snapshot <- n.openSnapshot()
				continue
			}
			err := n.restore(job.restore)
			job.restore.done <- err
			if err != nil {
				return err
			}
			have = job.restore.index
		}
	}
}

// apply gives the machine what it does not have yet and reports results of this run's own commands.
func (n *Node) apply(works []applyWork, have uint64) (uint64, error) {
	var entries []Entry
	var mine []envelope // parallel to entries
	ack := applyAck{}
	for _, w := range works {
		for _, e := range w.entries {
			ack.index, ack.term = e.GetIndex(), e.GetTerm()
			if e.GetIndex() <= have {
				continue
			}
			entry, env, err := n.open(e)
			if err != nil {
				return have, err
			}
			entries, mine = append(entries, entry), append(mine, env)
		}
		ack.gen = w.gen
		ack.acks = append(ack.acks, w.acks...)
	}
	if len(entries) > 0 {
		began := time.Now()
		results, err := n.cfg.Machine.Apply(entries)
		if err != nil {
			return have, fmt.Errorf("apply entries %d to %d: %w", entries[0].Index, ack.index, err)
		}
		commands := 0
		for _, e := range entries {
			commands += len(e.Commands)
		}
		ack.synced = n.cfg.Machine.Synced()
		n.observe.Applied(time.Since(began), len(entries), commands)
		if ack.results, err = match(entries, mine, results, n.proposer); err != nil {
			return have, err
		}
	}
	n.post(func(in *input) { in.applied = append(in.applied, ack) })
	return max(have, ack.index), nil
}

func (n *Node) open(e *pb.Entry) (Entry, envelope, error) {
	entry := Entry{Index: e.GetIndex(), Term: e.GetTerm()}
	if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
		return entry, envelope{}, nil
	}
	env, err := decodeEnvelope(e.GetData())
	if err != nil {
		return entry, envelope{}, fmt.Errorf("entry %d: %w", entry.Index, err)
	}
	entry.Commands = env.commands
	return entry, env, nil
}

// match picks the results that somebody here may wait for.
func match(entries []Entry, envelopes []envelope, results [][]any, proposer uint64) ([]applyResult, error) {
	if len(results) != len(entries) {
		return nil, fmt.Errorf("machine gave %d results for %d entries", len(results), len(entries))
	}
	var out []applyResult
	for i, env := range envelopes {
		if len(results[i]) != len(env.commands) {
			return nil, fmt.Errorf("machine gave %d results for the %d commands of entry %d",
				len(results[i]), len(env.commands), entries[i].Index)
		}
		if env.proposer == proposer && len(env.ids) > 0 {
			out = append(out, applyResult{ids: env.ids, values: results[i]})
		}
	}
	return out, nil
}

func (n *Node) restore(job *restoreJob) error {
	f, err := os.Open(job.file)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	err = n.cfg.Machine.Restore(job.index, f)
	if err != nil {
		err = fmt.Errorf("restore state at entry %d: %w", job.index, err)
	}
	return errors.Join(err, f.Close(), os.Remove(job.file))
}
