package hub

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/store"
)

const (
	transferTime = 10 * time.Second
	compactStep  = 5000                   // revisions of one compaction, so that no entry is held up for long
	compactPause = 100 * time.Millisecond // between two
	compactTime  = 15 * time.Second       // of one request; who asked asks again
)

// operations are what operators may ask of the hub itself.
func (h *Hub) operations() map[string]apiserver.Operation {
	return map[string]apiserver.Operation{
		remote.HubStatusOp:   {Read: func(ctx context.Context) (any, error) { return h.status(ctx) }},
		remote.HubSnapshotOp: {Stream: func(ctx context.Context, w io.Writer) error { return h.save(ctx, w) }},
		remote.HubRemoveOp:   {Write: h.removeMember},
		remote.HubTransferOp: {Write: h.transferLeader},
		remote.HubCompactOp:  {Write: h.compactHistory},
		remote.HubDefragOp:   {Write: h.defragMember},
		remote.HubTokenKeyOp: {Write: h.rotateTokenKey},
		remote.HubSealingOp:  {Read: func(ctx context.Context) (any, error) { return h.sealing(ctx) }},
		remote.HubRotateOp:   {Write: h.startRotation},
		remote.HubDropKeysOp: {Write: h.dropKeys},
	}
}

func (h *Hub) memberNamed(q url.Values) (consensus.Member, error) {
	name := q.Get("member")
	for _, m := range h.node.Members() {
		if m.Name == name {
			return m, nil
		}
	}
	return consensus.Member{}, fault.NotFound.Errorf("the hub has no member %.100q; drover hub members lists them", name)
}

// removeMember takes a member out of the group. What it holds stays on its disk, and it finds out by itself that it is out.
func (h *Hub) removeMember(ctx context.Context, q url.Values) (any, error) {
	m, err := h.memberNamed(q)
	if err != nil {
		return nil, err
	}
	if q.Get("force") != "true" {
		if err := h.staysAlive(ctx, m); err != nil {
			return nil, err
		}
	}
	h.log.Warn("an operator removes a member", "removed", m.Name)
	if err := enroll.ForgetJoins(ctx, h.replica, "hub:"+h.id.Name, m.Name); err != nil {
		return nil, err
	}
	err = h.node.RemoveMember(ctx, m.ID)
	if errors.Is(err, consensus.ErrRemoved) && m.Name == h.id.Name {
		return nil, nil // it is out, and learned it before the answer to its own question
	}
	if err != nil {
		return nil, replicaFault(err)
	}
	return nil, nil
}

// staysAlive refuses a removal after which the members that answer are no majority.
func (h *Hub) staysAlive(ctx context.Context, gone consensus.Member) error {
	s, err := h.status(ctx)
	if err != nil {
		return err
	}
	voters, alive := 0, 0
	for i := range s.Members {
		if m := &s.Members[i]; m.Name != gone.Name && m.Role != "learner" {
			voters++
			if m.Error == "" {
				alive++
			}
		}
	}
	if voters > 0 && alive <= voters/2 {
		return fault.Conflict.Errorf("without %s only %d of %d members with a vote answer, which is no majority: the hub would stop", gone.Name, alive, voters)
	}
	return nil
}

func (h *Hub) transferLeader(ctx context.Context, q url.Values) (any, error) {
	m, err := h.memberNamed(q)
	if err != nil {
		return nil, err
	}
	if m.Learner {
		return nil, fault.Conflict.Errorf("%s is still catching up and has no vote: only a voter can lead", m.Name)
	}
	if h.node.Status().Leader == 0 {
		return nil, fault.Unavailable.Errorf("%w: nobody could hand over", consensus.ErrNoLeader)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	err = h.node.TransferLeader(ctx, m.ID)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fault.Timeout.Errorf("%s does not lead after %s: drover hub status shows whether it answers and how far behind it is: %w", m.Name, transferTime, err)
	}
	if err != nil {
		return nil, replicaFault(err)
	}
	return nil, nil
}

// compactHistory forgets versions that were superseded before the newest "keep" revisions, as far as it comes in one request.
func (h *Hub) compactHistory(ctx context.Context, q url.Values) (any, error) {
	keep, err := strconv.ParseUint(q.Get("keep"), 10, 40)
	if err != nil {
		return nil, fault.BadRequest.Errorf("keep %.40q: want a number of revisions", q.Get("keep"))
	}
	if err := h.replica.Barrier(ctx); err != nil {
		return nil, err
	}
	newest := h.store.Revision()
	if newest.Counter() <= keep {
		return remote.Compacted{Revision: h.store.Compacted().String()}, nil
	}
	target := store.MakeRevision(newest.Epoch(), newest.Counter()-keep)
	until := time.Now().Add(compactTime)
	for h.store.Compacted() < target && time.Now().Before(until) {
		before := h.store.Compacted()
		res, err := h.replica.Propose(ctx, &store.Command{Actor: "hub:" + h.id.Name, Compact: min(target, before+compactStep)})
		if err == nil {
			err = res.Err
		}
		if err != nil {
			return nil, err
		}
		if h.store.Compacted() == before {
			target = before // the rest lies within one set, which is not split
			break
		}
		select {
		case <-time.After(compactPause):
		case <-ctx.Done():
			return nil, fault.Timeout.Errorf("compacted to revision %s: %w", h.store.Compacted(), ctx.Err())
		}
	}
	return remote.Compacted{Revision: h.store.Compacted().String(), More: uint64(max(target, h.store.Compacted()) - h.store.Compacted())}, nil
}

// defragMember asks for a member's turn to rewrite its file; the leader lets one member at a time.
func (h *Hub) defragMember(ctx context.Context, q url.Values) (any, error) {
	m, err := h.memberNamed(q)
	if err != nil {
		return nil, err
	}
	err = h.upkeep.Want(ctx, m.Name)
	var full *store.QuotaError
	if errors.As(err, &full) {
		return nil, fault.Conflict.Errorf("%w; until then nobody can note whose turn it is. Compacting first may make room: drover hub compact --keep 0", full)
	}
	return nil, err
}
