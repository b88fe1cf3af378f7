package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/gateway/httpgw"
	"github.com/drover-fleet/drover/store"
)

// probeTimeout bounds asking another member whether it lives.
const probeTimeout = time.Second

// listenQuietly opens a port whose connections send their first TCP keep-alive after a quarter of an hour of silence: devices on
// metered links pay for each, and what is dead shows by deadlines and missing polls before.
func listenQuietly(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 16 * time.Minute, Interval: time.Minute, Count: 4}}
	return lc.Listen(context.Background(), "tcp", addr)
}

// listen serves operators and devices on one port, once the member has a certificate.
func (h *Hub) listen(ctx context.Context) error {
	select {
	case <-h.keys.born:
	case <-ctx.Done():
		return h.api.Close()
	}
	handler, err := h.handler(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler, TLSConfig: h.keys.apiServer(h.conns.Known), ConnState: h.conns.State, ConnContext: h.conns.Context,
		// Half as much again as hub/apiserver takes, so that who sends too much is told so, counted and put on record.
		ReadHeaderTimeout: h.cfg.HeaderTime, IdleTimeout: 10 * time.Minute, MaxHeaderBytes: 48 << 10,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 250, CountError: func(string) { h.metrics.Refused("http2") }},
		ErrorLog:  h.quietTLS(),
		Protocols: webProtocols(), TLSNextProto: h.storeProtocol(ctx),
	}
	drained := make(chan error, 1)
	go func() {
		<-ctx.Done()
		soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.DrainTimeout)
		defer cancel()
		err := server.Shutdown(soft)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close() // polls and watches that did not end by themselves
		}
		drained <- err
	}()
	if err := server.ServeTLS(h.api, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", h.id.API, err)
	}
	return <-drained
}

// handler gives the device protocol and the joins their paths, and the operators' API everything else.
func (h *Hub) handler(ctx context.Context) (http.Handler, error) {
	operators, err := apiserver.New(apiserver.Config{
		Clients: h.registry, Why: h.registry, Logs: h.gateway, Contacts: h.contacts,
		Members: apiserver.MembersFunc(h.members), Operations: h.operations(), Ready: h.checks(), Member: h.id.Name, IsMember: h.isMember, Version: h.cfg.Version, Access: h.access, Tokens: h.tokens, Users: users{h},
		Peer: h.peers, Logger: h.log, Lasting: ctx, Metrics: h.metrics.Text, Observe: h.metrics.API,
		Audit: h.audit, AuditFiles: h.audit, Seats: h.seats, Refused: h.metrics.Refused, Limits: h.cfg.Limits,
	})
	if err != nil {
		return nil, err
	}
	devices := httpgw.New(httpgw.Config{Devices: h.gateway, Contacts: h.contacts, Enroller: recordedEnroller{h.enroller, h.audit}, Logger: h.log, IsMember: h.isMember,
		Observe: h.metrics.Device, Audit: h.audit, Seats: h.seats, Polls: h.polls, Refused: h.metrics.Refused})
	return router{operators: operators, devices: devices, members: map[string]http.Handler{
		pathHashes: h.membersOnly(h.serveHashes), pathStatus: h.membersOnly(h.serveStatus),
		pathKeyIDs: h.membersOnly(h.serveKeyIDs), pathKey: h.membersOnly(h.serveKey),
		pathHistory: anyMember(h.serveHistory), // also for those that were left behind: it is how they learn of it
	}}, nil
}

// router tells the two apart by the path as it came. http.ServeMux would first clean it, and send who asks for an object with an
// empty name on to the collection or namespace that it lies in.
type router struct {
	operators, devices http.Handler
	members            map[string]http.Handler // what members ask of each other, by path
}

func (m router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fair.Served(r.Context())
	path := r.URL.Path
	if serve, ok := m.members[path]; ok {
		serve.ServeHTTP(w, r)
		return
	}
	switch path {
	case wire.PathEnroll, wire.PathHello, wire.PathPoll, wire.PathBodies, wire.PathReport, wire.PathToken, enroll.PathJoin, httpgw.PathContacts:
		m.devices.ServeHTTP(w, r)
	default:
		if strings.HasPrefix(path, wire.PathStream) {
			m.devices.ServeHTTP(w, r)
			return
		}
		m.operators.ServeHTTP(w, r)
	}
}

func (h *Hub) checks() []apiserver.Check {
	return []apiserver.Check{
		{Name: "log", Ask: func(context.Context) error {
			if s := h.node.Status(); s.Fenced != "" {
				return errors.New(s.Fenced)
			}
			return nil
		}},
		{Name: "quorum", Ask: h.replica.Barrier},
		{Name: "room", Ask: func(context.Context) error {
			if u := h.store.Usage(); u.DataFull {
				return &store.QuotaError{What: "contents", Used: u.Data, Max: u.Limits.Data.Max, Low: u.Limits.Data.Low}
			}
			return nil
		}},
		{Name: "founded", Ask: func(context.Context) error {
			if h.enroller.get() == nil {
				return errNotYet
			}
			return nil
		}},
	}
}

// members lists the hub with who leads; each other member is asked whether it lives.
func (h *Hub) members(ctx context.Context) ([]remote.Member, error) {
	status := h.node.Status()
	list := make([]remote.Member, len(status.Members))
	var wg sync.WaitGroup
	for i, m := range status.Members {
		list[i] = remote.Member{Name: m.Name, URL: "https://" + m.APIAddr, Leader: m.ID == status.Leader, Healthy: true}
		if m.Learner {
			list[i].Message = "catching up"
		}
		if m.ID == status.ID {
			list[i].Message = orElse(status.Fenced, list[i].Message)
			list[i].Healthy = status.Fenced == ""
			continue
		}
		wg.Go(func() {
			if err := h.probe(ctx, list[i].URL); err != nil {
				list[i].Healthy, list[i].Message = false, err.Error()
			}
		})
	}
	wg.Wait()
	return list, nil
}

func (h *Hub) probe(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/livez", nil)
	if err != nil {
		return err
	}
	resp, err := h.peers.RoundTrip(rq)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// urls are where all members are reached, this one included.
func (h *Hub) urls() []string {
	var urls []string
	for _, m := range h.node.Members() {
		if m.APIAddr != "" {
			urls = append(urls, "https://"+m.APIAddr)
		}
	}
	return urls
}

// pushContacts tells the other members of devices that are linked here.
func (h *Hub) pushContacts(ctx context.Context) error {
	p := &httpgw.Pusher{
		Contacts: h.contacts, Client: &http.Client{Transport: h.peers, Timeout: 5 * time.Second},
		Peers: func() []string {
			var others []string
			for _, m := range h.node.Members() {
				if m.Name != h.id.Name && m.APIAddr != "" {
					others = append(others, "https://"+m.APIAddr)
				}
			}
			return others
		},
	}
	return p.Run(ctx)
}

func hostOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Port() == "" {
		return "", fmt.Errorf("URL %q: want https://host:port", raw)
	}
	return u.Host, nil
}

// replicaFault classes what consensus says of membership.
func replicaFault(err error) error {
	switch {
	case errors.Is(err, consensus.ErrNameTaken):
		return fault.AlreadyExists.Errorf("%w", err)
	case errors.Is(err, consensus.ErrUnknown):
		return fault.NotFound.Errorf("%w", err)
	case errors.Is(err, consensus.ErrLastVoter), errors.Is(err, consensus.ErrLearner):
		return fault.Conflict.Errorf("%w", err)
	case errors.Is(err, consensus.ErrNoLeader), errors.Is(err, consensus.ErrStopped), errors.Is(err, consensus.ErrAmbiguous), errors.Is(err, consensus.ErrBusy):
		return fault.Unavailable.Errorf("%w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Timeout.Errorf("%w", err)
	}
	return fault.Internal.Errorf("%w", err)
}
