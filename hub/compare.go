package hub

import (
	"context"
	"net/http"
	"time"

	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store/mvcc"
)

// pathHashes answers another member with the hashes of this one's contents.
const pathHashes = "/drover/v1/internal/hashes"

const (
	compareEvery  = time.Minute
	maxHashes     = 128 << 10 // bytes of an answer
	reseedNoOften = 10 * time.Minute
)

func (h *Hub) serveHashes(w http.ResponseWriter, _ *http.Request) { h.answer(w, h.store.Hashes()) }

// compare asks the other members now and then what they hold. A member that a majority contradicts gives its copy up and is given the
// state again; contents that no majority decides about are an alarm.
func (h *Hub) compare(ctx context.Context) error {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	var reseeded time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := h.judge(ctx, &reseeded); err != nil {
			return err
		}
	}
}

// judge compares once and does what follows from it; reseeded is when this member last gave its copy up.
func (h *Hub) judge(ctx context.Context, reseeded *time.Time) error {
	d, diverged := h.compareOnce(ctx)
	h.findings.differ(diverged)
	switch {
	case !diverged:
	case d.Mine && time.Since(*reseeded) > reseedNoOften:
		*reseeded = time.Now()
		h.log.Error("this member's contents differ from the majority's: it is given the state again", "index", d.Index)
		return h.node.Reseed()
	default:
		h.log.Error("members' contents differ", "index", d.Index, "this_member", d.Mine)
	}
	return nil
}

func (h *Hub) compareOnce(ctx context.Context) (replica.Divergence, bool) {
	members := h.node.Members()
	var others [][]mvcc.IndexHash
	h.findings.forgetClocks()
	for _, m := range members {
		if m.Name == h.id.Name || m.APIAddr == "" {
			continue
		}
		hashes, err := h.hashesOf(ctx, m)
		if err != nil {
			h.log.Debug("hashes of another member", "from", m.Name, "err", err)
			continue
		}
		others = append(others, hashes)
	}
	return replica.Compare(h.store.Hashes(), others, len(members))
}

func (h *Hub) hashesOf(ctx context.Context, m consensus.Member) (out []mvcc.IndexHash, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = h.askMember(ctx, m, pathHashes, maxHashes, &out)
	return out, err
}
