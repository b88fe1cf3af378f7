package consensus

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// maxSnapPause bounds the pause after failures in a row, as a power of two of election time-outs: about a minute.
const maxSnapPause = 7

// snapRetry spaces transfers that fail: each costs a copy of the machine.
type snapRetry struct {
	failures int
	next     uint64 // tick
}

// wantSnapshot starts a transfer for raft, unless the member is down, in which case a copy would be made for nothing, or the last
// ones failed a moment ago.
func (c *core) wantSnapshot(m *pb.Message) {
	id := m.GetTo()
	if !c.alive(id) || c.tick < c.snapRetry[id].next {
		c.rn.ReportSnapshot(id, raft.SnapshotFailure)
		return
	}
	c.orderSnapshot(m)
}

func (c *core) onTransferEnded(r snapResult) {
	if r.err == nil {
		delete(c.snapRetry, r.to)
	} else {
		failures := c.snapRetry[r.to].failures
		c.snapRetry[r.to] = snapRetry{
			failures: min(failures+1, maxSnapPause), next: c.tick + uint64(c.cfg.ElectionTicks)<<failures,
		}
	}
	c.onSnapshotSent(r)
}
