package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/metrics"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
)

// pathStatus answers another member with what this one says of itself.
const pathStatus = "/drover/v1/internal/status"

const (
	maxStatus  = 256 << 10 // bytes of a member's answer
	statusTime = 3 * time.Second
)

// isMember tells whether a certificate is that of a member of the group now, as far as this member knows. Certificates are good for a year,
// and what a member may do ends when it is removed, or when another key takes its place.
func (h *Hub) isMember(cert *x509.Certificate) bool {
	name := cert.Subject.CommonName
	return slices.ContainsFunc(h.node.Members(), func(m consensus.Member) bool { return m.Name == name }) && h.memberKeys().Holds(cert)
}

func (h *Hub) memberKeys() enroll.Members { return enroll.Members{Reader: h.store} }

// peerName is whose certificate a connection between members has shown; not that of a member whose place another key has taken.
func (h *Hub) peerName(s tls.ConnectionState) (string, error) {
	name, err := peerName(s)
	if err == nil && h.memberKeys().Superseded(s.PeerCertificates[0]) {
		err = fmt.Errorf("another key has taken the place of member %s's", name)
	}
	return name, err
}

// membersOnly serves what members ask of each other.
func (h *Hub) membersOnly(serve http.HandlerFunc) http.Handler {
	return asMember(serve, h.isMember)
}

// anyMember serves also who was a member.
func anyMember(serve http.HandlerFunc) http.Handler {
	return asMember(serve, func(*x509.Certificate) bool { return true })
}

func asMember(serve http.HandlerFunc, may func(*x509.Certificate) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "members only", http.StatusForbidden)
			return
		}
		if _, err := peerName(*r.TLS); err != nil || !may(r.TLS.PeerCertificates[0]) {
			http.Error(w, "members only", http.StatusForbidden)
			return
		}
		serve(w, r)
	})
}

func (h *Hub) answer(w http.ResponseWriter, v any) {
	tellTime(w)
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		h.log.Debug("answer to a member not sent", "err", err)
	}
}

func (h *Hub) serveStatus(w http.ResponseWriter, _ *http.Request) { h.answer(w, h.ownStatus()) }

// askMember gets a member's answer to one of the paths that are for members.
func (h *Hub) askMember(ctx context.Context, m consensus.Member, path string, most int64, v any) error {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.APIAddr+path, nil)
	if err != nil {
		return err
	}
	began := time.Now()
	rs, err := h.peers.RoundTrip(rq)
	if err != nil {
		return err
	}
	h.findings.readTime(m.Name, began, rs.Header)
	defer func() { _ = rs.Body.Close() }()
	if rs.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", rs.Status)
	}
	if err := json.NewDecoder(io.LimitReader(rs.Body, most)).Decode(v); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	return nil
}

// isOut tells whether this member was taken out of the group, as far as it knows.
func (h *Hub) isOut(s consensus.Status) bool {
	return s.Removed || len(s.Members) > 0 && !slices.ContainsFunc(s.Members, func(m consensus.Member) bool { return m.ID == s.ID })
}

// status is this member's view of the hub, with what each member says of itself now.
func (h *Hub) status(ctx context.Context) (*remote.HubStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	s := h.node.Status()
	if h.isOut(s) {
		return nil, fault.Unavailable.Errorf("%s is no member of the hub any more: ask another, by --server or with a kubeconfig of all members", h.id.Name)
	}
	out := &remote.HubStatus{Asked: h.id.Name, Members: make([]remote.HubMember, len(s.Members))}
	if id := h.cluster.Load(); id != nil {
		out.ClusterID = *id
	}
	var wg sync.WaitGroup
	for i, m := range s.Members {
		if m.ID == s.Leader {
			out.Leader = m.Name
		}
		wg.Go(func() { out.Members[i] = h.statusOf(ctx, s, m) })
	}
	wg.Wait()
	furthest := uint64(0)
	for i := range out.Members {
		furthest = max(furthest, out.Members[i].Committed, out.Members[i].Applied)
	}
	for i := range out.Members {
		if m := &out.Members[i]; m.Error == "" {
			m.Lag = furthest - m.Applied
		}
	}
	if d, found := h.compareOnce(ctx); found {
		out.Diverged = diverged(d, h.id.Name)
	}
	return out, nil
}

func diverged(d replica.Divergence, member string) string {
	if d.Mine {
		return fmt.Sprintf("the contents of %s differ from the majority's at entry %d", member, d.Index)
	}
	return fmt.Sprintf("members' contents differ at entry %d", d.Index)
}

// statusOf asks a member, this one or another, and puts what the group knows of it beside its answer.
func (h *Hub) statusOf(ctx context.Context, s consensus.Status, m consensus.Member) remote.HubMember {
	var out remote.HubMember
	if m.ID == s.ID {
		out = h.ownStatus()
		out.ClockOffsetMillis = 0
	} else {
		asked := time.Now()
		err := h.askMember(ctx, m, pathStatus, maxStatus, &out)
		took := time.Since(asked)
		out.RoundTripMillis = took.Milliseconds()
		if err != nil {
			out = remote.HubMember{Error: err.Error()}
		} else {
			out.ClockOffsetMillis = out.Time.Sub(asked.Add(took / 2)).Milliseconds()
		}
	}
	out.Rewriting, _ = h.upkeep.Wanted(ctx, m.Name)
	out.Name, out.ID, out.Peer, out.URL = m.Name, strconv.FormatUint(m.ID, 16), m.PeerAddr, "https://"+m.APIAddr
	switch {
	case m.ID == s.Leader:
		out.Role = "leader"
	case m.Learner:
		out.Role = "learner"
	default:
		out.Role = "follower"
	}
	return out
}

// ownStatus is what this member says of itself. Figures that cannot be had are left out.
func (h *Hub) ownStatus() remote.HubMember {
	s, u, e := h.node.Status(), h.store.Usage(), h.store.Epoch()
	m := remote.HubMember{
		Version: h.cfg.Version, Term: s.Term, Committed: s.Committed, Applied: s.Applied, Fenced: s.Fenced, LogEntries: s.Entries,
		Epoch: e.Number, EpochID: e.ID, Revision: h.store.Revision().String(), Compacted: h.store.Compacted().String(),
		SyncP99Micros: h.metrics.Syncs().P99.Microseconds(),
		Data:          quotaOf(u.Data, u.Limits.Data, u.DataFull), Events: quotaOf(u.Events, u.Limits.Events, u.EventsFull), Journal: u.Journal,
		Time: time.Now().UTC(),
	}
	for _, other := range s.Members {
		if other.ID == s.Leader {
			m.Leader = other.Name
		}
	}
	m.LogBytes, m.StateBytes = sizeOf(h.dir.path(fileLog)), sizeOf(h.dir.path(fileState))
	if free, _, err := h.store.Wasted(); err == nil {
		m.StateFree = free
	}
	m.DiskFree, m.DiskSize = room(string(h.dir))
	if c, err := h.keys.get(); err == nil {
		m.CertificateEnds = c.cert.Leaf.NotAfter.UTC()
		if ca, err := x509.ParseCertificate(c.ca); err == nil {
			m.CAEnds = ca.NotAfter.UTC()
		}
	}
	for _, a := range metrics.Judge(h.condition()) {
		if a.On {
			m.Alarms = append(m.Alarms, strings.ReplaceAll(a.Name, "_", " ")+": "+a.Message)
		}
	}
	return m
}

func quotaOf(used uint64, q store.Quota, full bool) remote.HubQuota {
	return remote.HubQuota{Used: used, High: q.High, Low: q.Low, Max: q.Max, Full: full}
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// room is what is free for this process and the size, in bytes, of the file system that holds the path; 0 where it does not say.
func room(path string) (free, size int64) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, 0
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize
}
