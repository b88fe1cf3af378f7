package hub

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/registry"
)

// found brings about what every hub has: an epoch, the CA, a default namespace, and this member's certificate. All of it is
// idempotent, so that a start which was cut short is taken up here. It needs a leader and tries until there is one.
func (h *Hub) found(ctx context.Context) error {
	policy := retry.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	attempts := retry.Attempts{Policy: policy, Random: random}
	for {
		err := h.foundOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !fault.Retryable(err) {
			return fmt.Errorf("found the hub: %w", err)
		}
		wait := attempts.Failed(err)
		if h.isOut(h.node.Status()) {
			h.log.Warn("this member was removed from the hub and serves nothing: end it and move its directory away; to take part again, join with drover-hub --join",
				"dir", h.dir, "retry_in", wait)
		} else {
			h.log.Info(h.awaits(), "err", err, "retry_in", wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// awaits says what a start is held up by. Only a hub whose cluster nobody knows yet is still to be founded.
func (h *Hub) awaits() string {
	if h.cluster.Load() == nil {
		return "the hub is not founded yet"
	}
	return "this member waits for a majority of the hub's members"
}

func (h *Hub) foundOnce(ctx context.Context) error {
	if err := h.replica.Found(ctx); err != nil {
		return err
	}
	authority, err := enroll.Open(ctx, enroll.Options{Records: h.records(), Sealer: h.sealer})
	if err != nil {
		return err
	}
	if err := registry.EnsureNamespace(ctx, h.as("hub:"+h.id.Name), api.DefaultNS); err != nil {
		return err
	}
	if err := h.bear(authority); err != nil {
		return err
	}
	if err := h.recordKey(ctx); err != nil {
		return err
	}
	e, err := enroll.New(enroll.Config{
		Client: h.as("hub:" + h.id.Name), Authority: authority, Endpoints: h.urls, Logger: h.log, Records: h.records(),
		SealingKey: h.sealer.Export, CheckMember: h.checkMember, AddMember: h.addMember,
	})
	if err != nil {
		return err
	}
	h.authority.Store(authority)
	h.enroller.set(e)
	h.log.Info("hub member serves", "cluster", authority.ClusterID(), "api", h.id.API)
	return nil
}

func (h *Hub) records() enroll.Records { return enroll.NewRecords(h.replica, h.id.Name) }

// bear gives the first member its certificate and its admin's kubeconfig.
func (h *Hub) bear(a *enroll.Authority) error {
	if err := h.rememberCluster(a.ClusterID()); err != nil {
		return err
	}
	if _, err := h.keys.get(); err == nil {
		return nil
	}
	err := h.writeAdmin(func() ([]byte, error) {
		cert, err := a.AdminCertificate("admin")
		if err != nil {
			return nil, err
		}
		return a.Kubeconfig("admin", cert, []string{"https://" + h.id.API})
	})
	if err != nil {
		return err
	}
	cert, err := a.ServerCertificate(h.id.Name, h.id.hosts())
	if err != nil {
		return err
	}
	if err := h.dir.saveCredentials(a.CA(), cert); err != nil {
		return err
	}
	creds, err := h.dir.loadCredentials()
	if err != nil {
		return err
	}
	h.keys.set(creds)
	return nil
}

// recordKey puts this member's key on record, which the others judge its certificate by.
func (h *Hub) recordKey(ctx context.Context) error {
	c, err := h.keys.get()
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(c.cert.Certificate[0])
	if err != nil {
		return fmt.Errorf("read this member's certificate: %w", err)
	}
	return enroll.RecordMember(ctx, h.records(), leaf, len(h.node.Members()) == 1)
}

// rememberCluster pins the cluster's id in the directory: a member that finds another one in its log has been given a
// foreign file.
func (h *Hub) rememberCluster(id string) error {
	switch h.id.ClusterID {
	case id:
	case "":
		next := h.id
		next.ClusterID = id
		if err := h.dir.saveIdentity(next); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the log is of cluster %s, but %s belongs to cluster %s: is a file of another hub in it?", id, h.dir, h.id.ClusterID)
	}
	h.cluster.Store(&id)
	return nil
}

// checkMember refuses a name or an address that is another member's. A member that lost its directory comes back under both.
func (h *Hub) checkMember(m enroll.Member) error {
	api, err := hostOf(m.URL)
	if err != nil {
		return fault.Invalid.Errorf("member %s: %w", m.Name, err)
	}
	for _, c := range h.node.Members() {
		switch same := c.PeerAddr == m.Peer; {
		case c.Name == m.Name && !same:
			return fault.AlreadyExists.Errorf("the hub has a member %s at %s: choose another name, or come back at that address", c.Name, c.PeerAddr)
		case c.Name != m.Name && (same || c.APIAddr == api):
			return fault.AlreadyExists.Errorf("member %s of the hub is at %s and %s: %s needs addresses of its own", c.Name, c.APIAddr, c.PeerAddr, m.Name)
		}
	}
	return nil
}

// addMember takes a member into the group; one that is there already changes nothing.
func (h *Hub) addMember(ctx context.Context, m enroll.Member) ([]enroll.Member, error) {
	api, err := hostOf(m.URL)
	if err != nil {
		return nil, fault.Invalid.Errorf("member %s: %w", m.Name, err)
	}
	if _, err := h.node.AddMember(ctx, consensus.Member{Name: m.Name, PeerAddr: m.Peer, APIAddr: api}); err != nil {
		return nil, replicaFault(err)
	}
	var all []enroll.Member
	for _, c := range h.node.Members() {
		all = append(all, enroll.Member{ID: c.ID, Name: c.Name, Peer: c.PeerAddr, URL: "https://" + c.APIAddr})
	}
	return all, nil
}

// lateEnroller answers "not yet" until the cluster is founded or its CA could be read.
type lateEnroller struct {
	mu sync.RWMutex
	e  *enroll.Enroller // guarded by mu
}

func (l *lateEnroller) set(e *enroll.Enroller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.e = e
}

func (l *lateEnroller) get() *enroll.Enroller {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.e
}

var errNotYet = fault.NoQuorum("this member has not read the cluster's CA yet: a majority of members must run")

// Enroll implements httpgw.Enroller.
func (l *lateEnroller) Enroll(ctx context.Context, q wire.EnrollRequest, source string) (wire.EnrollReply, error) {
	e := l.get()
	if e == nil {
		return wire.EnrollReply{}, errNotYet
	}
	return e.Enroll(ctx, q, source)
}

// Join implements httpgw.Enroller.
func (l *lateEnroller) Join(ctx context.Context, q enroll.JoinRequest) (enroll.JoinReply, error) {
	e := l.get()
	if e == nil {
		return enroll.JoinReply{}, errNotYet
	}
	return e.Join(ctx, q)
}
