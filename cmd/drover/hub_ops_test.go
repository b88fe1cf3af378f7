package main

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/backup"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/hub/apiserver"
)

// operations are those of a hub of three, of which h3 is dead. Removing and transferring take effect, and a member is rewritten at once.
func (h *hub) operations() map[string]apiserver.Operation {
	s := h.threeMembers()
	named := func(q url.Values) (int, error) {
		for i := range s.Members {
			if s.Members[i].Name == q.Get("member") {
				return i, nil
			}
		}
		return 0, fault.NotFound.Errorf("the hub has no member %q", q.Get("member"))
	}
	seal := &sealingOps{now: remote.Sealing{Active: "00aa", Values: map[string]int{"00aa": 7}}}
	return map[string]apiserver.Operation{
		remote.HubSealingOp:  {Read: func(context.Context) (any, error) { return seal.step(), nil }},
		remote.HubRotateOp:   {Write: seal.rotate},
		remote.HubDropKeysOp: {Write: seal.drop},
		remote.HubTokenKeyOp: {Write: func(_ context.Context, q url.Values) (any, error) {
			if seal.forgot {
				return nil, fault.Unavailable.Errorf("no leader")
			}
			seal.forgot = q.Get("forget") == "true"
			return nil, nil
		}},
		remote.HubStatusOp: {Read: func(context.Context) (any, error) {
			s.Members[0].URL = h.server.URL
			return s, nil
		}},
		remote.HubRemoveOp: {Write: func(_ context.Context, q url.Values) (any, error) {
			i, err := named(q)
			if err == nil {
				s.Members = append(s.Members[:i:i], s.Members[i+1:]...)
			}
			return nil, err
		}},
		remote.HubTransferOp: {Write: func(_ context.Context, q url.Values) (any, error) {
			i, err := named(q)
			if err == nil {
				s.Leader = s.Members[i].Name
			}
			return nil, err
		}},
		remote.HubCompactOp: {Write: func(_ context.Context, q url.Values) (any, error) {
			if q.Get("keep") == "200" {
				return remote.Compacted{Revision: "1099511628776"}, nil
			}
			return nil, fault.Unavailable.Errorf("no leader")
		}},
		remote.HubDefragOp: {Write: func(_ context.Context, q url.Values) (any, error) {
			i, err := named(q)
			if err == nil {
				s.Members[i].StateBytes /= 4
			}
			return nil, err
		}},
		remote.HubSnapshotOp: {Stream: func(_ context.Context, w io.Writer) error {
			head := backup.Header{
				ClusterID: "CLUSTER", Epoch: 1, EpochID: "epoch-1", Revision: 1<<40 + 5, Index: 12, Term: 3, Member: "h1", Version: "0.1.0",
				Members: []backup.Member{{Name: "h1", API: "10.0.0.1:7443", Peer: "10.0.0.1:7444"}}, Time: time.Unix(1_800_000_000, 0).UTC(),
			}
			return backup.Write(w, head, strings.NewReader("the state"))
		}},
	}
}

// sealingOps change the sealing key of 7 values, one phase each time that somebody looks.
type sealingOps struct {
	now    remote.Sealing
	forgot bool // tokens were forgotten
}

func (o *sealingOps) step() *remote.Sealing {
	s := o.now
	switch s.Phase {
	case "spreading":
		o.now = remote.Sealing{Phase: "sealing", Active: "00bb", Old: []string{"00aa"}, Values: map[string]int{"00aa": 4, "00bb": 3}}
	case "sealing":
		o.now = remote.Sealing{Phase: "sealed", Active: "00bb", Old: []string{"00aa"}, Values: map[string]int{"00bb": 7}, Since: "1099511628777"}
	}
	return &s
}

func (o *sealingOps) rotate(_ context.Context, q url.Values) (any, error) {
	if o.now.Phase == "" || q.Get("restart") == "true" {
		o.now = remote.Sealing{Phase: "spreading", Active: "00aa", Next: "00bb", Waiting: []string{"h3 (connection refused)"}, Values: map[string]int{"00aa": 7}}
	}
	return o.step(), nil
}

func (o *sealingOps) drop(context.Context, url.Values) (any, error) {
	if o.now.Phase != "sealed" {
		return nil, fault.Conflict.Errorf("a change of the sealing key is not finished (%s)", o.now.Phase)
	}
	o.now.Old = nil
	return &o.now, nil
}

func (h *hub) threeMembers() *remote.HubStatus {
	quota := remote.HubQuota{Used: 3 << 20, High: 90 << 20, Low: 80 << 20, Max: 100 << 20}
	of := func(name, role string, applied uint64) remote.HubMember {
		return remote.HubMember{
			Name: name, ID: "1f", Peer: "10.0.0.1:7444", Role: role, Version: "0.1.0", Term: 7, Leader: "h1", Committed: 1000, Applied: applied,
			Lag: 1000 - applied, Epoch: 1, EpochID: "epoch-1", Revision: "1099511628776", SyncP99Micros: 2340, LogBytes: 1 << 20, StateBytes: 16 << 20,
			DiskFree: 50 << 30, DiskSize: 100 << 30, Data: quota, Events: quota,
			CertificateEnds: time.Now().Add(300 * 24 * time.Hour), CAEnds: time.Now().Add(3000 * 24 * time.Hour), Time: time.Now(),
		}
	}
	return &remote.HubStatus{Asked: "h1", ClusterID: "CLUSTER", Leader: "h1", Members: []remote.HubMember{
		of("h1", "leader", 1000), of("h2", "follower", 990),
		{Name: "h3", ID: "3f", URL: "https://127.0.0.1:1", Peer: "127.0.0.1:2", Role: "follower", Error: "connection refused"},
	}}
}
