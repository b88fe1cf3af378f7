package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/consensus"
)

// A restore, and a reset from a survivor, begin another history of the hub: a higher epoch, in a group of its own. A member of the
// history before still has a certificate, and two of three such members are a majority of their own group. So each member asks
// those that it knows of, before it serves anything and ever again, what history they are of, and ends where it learns that its own is over.

// pathHistory answers another member with the history that this one is of.
const pathHistory = "/drover/v1/internal/history"

const (
	historyTime   = time.Second     // for an answer
	historyEvery  = time.Minute     // between two questions
	historyAtOnce = 3 * time.Second // the same while no leader is known
	maxHistory    = 16 << 10        // bytes of an answer
)

// history is what a member says of where it belongs.
type history struct {
	Member    string   `json:"member"`
	ClusterID string   `json:"clusterID"`
	Epoch     uint32   `json:"epoch"`
	EpochID   string   `json:"epochID"`
	Group     []uint64 `json:"group"` // ids of the group's members
}

// ErrHistoryOver means that the hub goes on in a later history, to which this member's directory does not belong.
var ErrHistoryOver = errors.New("this member's history is over")

func (h *Hub) serveHistory(w http.ResponseWriter, _ *http.Request) { h.answer(w, h.ownHistory()) }

func (h *Hub) ownHistory() history {
	e := h.store.Epoch()
	out := history{Member: h.id.Name, Epoch: e.Number, EpochID: e.ID}
	if id := h.cluster.Load(); id != nil {
		out.ClusterID = *id
	}
	for _, m := range h.node.Members() {
		out.Group = append(out.Group, m.ID)
	}
	return out
}

// over tells whether another member's word ends this one's history: the same cluster, a later epoch, and a group that this member
// is not in. A member that only lags behind its own group is in it.
func over(mine history, id uint64, theirs history) bool {
	return mine.ClusterID != "" && theirs.ClusterID == mine.ClusterID && theirs.Epoch > mine.Epoch && !slices.Contains(theirs.Group, id)
}

// refuseOver returns ErrHistoryOver when a member that this one knows of says so. Who does not answer says nothing.
func (h *Hub) refuseOver(ctx context.Context) error {
	mine, id := h.ownHistory(), h.node.Status().ID
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var found error // guarded by mu
	for _, m := range h.node.Members() {
		if m.ID == id || m.APIAddr == "" {
			continue
		}
		wg.Go(func() {
			if err := h.compareHistory(ctx, mine, id, m); err != nil {
				mu.Lock()
				defer mu.Unlock()
				found = err
			}
		})
	}
	wg.Wait()
	return found
}

func (h *Hub) compareHistory(ctx context.Context, mine history, id uint64, m consensus.Member) error {
	var theirs history
	if err := h.askMember(ctx, m, pathHistory, maxHistory, &theirs); err != nil {
		h.log.Debug("history of another member", "from", m.Name, "err", err)
		return nil
	}
	if !over(mine, id, theirs) {
		return nil
	}
	if mine.Epoch == 0 {
		return fmt.Errorf("%w: %s was never given the hub's state, and the group of member %s at %s has no place for it any more. Move it away and join again "+
			"with drover-hub --join and a token from drover token create --for hub", ErrHistoryOver, h.dir, theirs.Member, m.APIAddr)
	}
	return fmt.Errorf("%w: %s is of epoch %d (%s) of cluster %s, but the hub was restored or reset since: member %s at %s is of epoch %d (%s), "+
		"and its group has no place for this directory. Nothing was changed here. To take part again, move %s away and join with "+
		"drover-hub --join and a token from drover token create --for hub",
		ErrHistoryOver, h.dir, mine.Epoch, mine.EpochID, mine.ClusterID, theirs.Member, m.APIAddr, theirs.Epoch, theirs.EpochID, h.dir)
}

// watchHistory ends the member once its history is over.
func (h *Hub) watchHistory(ctx context.Context) error {
	for {
		pause := historyEvery
		if h.node.Status().Leader == 0 {
			pause = historyAtOnce
		}
		changed := h.replica.LeadershipChanged()
		select {
		case <-time.After(pause):
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := h.refuseOver(ctx); err != nil {
			return err
		}
	}
}
