package main

import (
	"fmt"
	"time"

	"github.com/drover-fleet/drover/test/bench/store/load"
)

// row is one kind of load and the figures that it gives.
type row struct {
	spec     load.Spec
	name     string
	peerSpec *load.Spec
	onLeader bool    // one client: where it is connected decides, so both are connected to the leader
	rate     float64 // aims; 0 = none
	p50, p99 float64
	cost     bool // give processor time and disk bytes of an operation too
	quick    bool // belongs to the short form
	api      bool // ours by the HTTPS API, with no peer
}

// Names of what is measured besides rows.
const (
	memoryEmpty  = "resident memory a member, 10,000 keys"
	memoryLoaded = "resident memory a member, after all loads"
	killed       = "kill -9 of the leader to the next put"
	restarted    = "start after kill -9 to a put through that member"
	manyKeys     = "start after kill -9 with 1,000,000 keys"
	memoryMany   = "resident memory a member, 1,000,000 keys"
)

const (
	keys      = 10_000 // distinct keys under load
	batchKeys = 64
	conns     = 100 // as many as etcd's own benchmark is given, on both sides
)

func put(clients, bytes int) row {
	r := row{
		name:  fmt.Sprintf("put %d B, %d client(s)", bytes, clients),
		spec:  load.Spec{Op: load.OpPut, Clients: clients, Conns: min(clients, conns), ValueBytes: bytes, Keys: keys},
		quick: bytes == 256, onLeader: clients == 1,
	}
	switch clients {
	case 1:
		r.p50 = 1
	case 100:
		r.rate, r.cost = 2, true
	case 1000:
		r.rate, r.p99, r.cost = 2.5, 0.4, true
	}
	return r
}

func get(op string, clients int, aim float64) row {
	name := map[string]string{load.OpGet: "linearizable read", load.OpGetStale: "stale read"}[op]
	return row{
		name:  fmt.Sprintf("%s, %d clients", name, clients),
		spec:  load.Spec{Op: op, Clients: clients, Conns: min(clients, conns), ValueBytes: 256, Keys: keys},
		rate:  aim,
		quick: clients == 100 && op == load.OpGet,
	}
}

func putIf(clients int) row {
	return row{
		name: fmt.Sprintf("compare-and-put 256 B, %d clients", clients),
		spec: load.Spec{Op: load.OpPutIf, Clients: clients, Conns: min(clients, conns), ValueBytes: 256, Keys: keys},
		rate: 3,
	}
}

// batches stand against single puts, which is what most clients of etcd do, and against etcd's own transactions.
func batches() []row {
	batch := load.Spec{Op: load.OpBatch, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys, Batch: batchKeys}
	single := load.Spec{Op: load.OpPut, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys}
	return []row{
		{name: "batches of 64 against single puts, 100 clients", spec: batch, peerSpec: &single, rate: 6, quick: true},
		{name: "batches of 64 against Txn of 64, 100 clients", spec: batch},
	}
}

func watches() []row {
	all := load.Spec{Op: load.OpWatchAll, Watchers: 1000, Clients: 10, Conns: conns, ValueBytes: 256, Keys: 1000}
	own := load.Spec{Op: load.OpWatchKeys, Watchers: 10_000, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys}
	paced := own
	paced.Rate = 1000
	return []row{
		{name: "1,000 watchers of one prefix, events", spec: all, rate: 2, quick: true},
		{name: "10,000 watchers of a key each, events", spec: own, rate: 2},
		{name: "10,000 watchers of a key each, 1,000 puts/s", spec: paced, p99: 1},
	}
}

// apiKeys are fewer: each is an object, with its managed fields.
const apiKeys = 1000

// throughAPI shows what objects cost above keys: decoding, admission, merging, rendering, the audit log.
func throughAPI() []row {
	put := load.Spec{Op: load.OpPut, Clients: 100, Conns: conns, ValueBytes: 256, Keys: apiKeys}
	get := put
	get.Op = load.OpGet
	return []row{
		{name: "HTTPS API: update of a ConfigMap, 100 clients", spec: put, api: true},
		{name: "HTTPS API: read of a ConfigMap, 100 clients", spec: get, api: true},
	}
}

func rows() []row {
	all := []row{put(1, 256), put(100, 256), put(1000, 256), put(1, 1024), put(100, 1024), put(1000, 1024), putIf(100), putIf(1000)}
	all = append(all, batches()...)
	all = append(all, get(load.OpGet, 1, 0), get(load.OpGet, 100, 1.5), get(load.OpGet, 1000, 1.5), get(load.OpGetStale, 100, 0), get(load.OpGetStale, 1000, 0))
	return append(append(all, watches()...), throughAPI()...)
}

// lengths of one run of a row.
type lengths struct {
	warm, measure time.Duration
	rounds        int
}

func lengthsOf(quick bool) lengths {
	if quick {
		return lengths{300 * time.Millisecond, time.Second, 3}
	}
	return lengths{time.Second, 3 * time.Second, 3}
}
