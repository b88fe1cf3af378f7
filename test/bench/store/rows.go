package main

import (
	"fmt"

	"github.com/drover-fleet/drover/test/bench/side"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

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

func put(clients, bytes int) side.Row {
	r := side.Row{
		Name:  fmt.Sprintf("put %d B, %d client(s)", bytes, clients),
		Spec:  load.Spec{Op: load.OpPut, Clients: clients, Conns: min(clients, conns), ValueBytes: bytes, Keys: keys},
		Quick: bytes == 256, OnLeader: clients == 1,
	}
	switch clients {
	case 1:
		r.P50 = 1
	case 100:
		r.Rate, r.Cost = 2, true
	case 1000:
		r.Rate, r.P99, r.Cost = 2.5, 0.4, true
	}
	return r
}

func get(op string, clients int, aim float64) side.Row {
	name := map[string]string{load.OpGet: "linearizable read", load.OpGetStale: "stale read"}[op]
	return side.Row{
		Name:  fmt.Sprintf("%s, %d clients", name, clients),
		Spec:  load.Spec{Op: op, Clients: clients, Conns: min(clients, conns), ValueBytes: 256, Keys: keys},
		Rate:  aim,
		Quick: clients == 100 && op == load.OpGet,
	}
}

func putIf(clients int) side.Row {
	return side.Row{
		Name: fmt.Sprintf("compare-and-put 256 B, %d clients", clients),
		Spec: load.Spec{Op: load.OpPutIf, Clients: clients, Conns: min(clients, conns), ValueBytes: 256, Keys: keys},
		Rate: 3,
	}
}

// batches stand against single puts, which is what most clients of etcd do, and against etcd's own transactions.
func batches() []side.Row {
	batch := load.Spec{Op: load.OpBatch, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys, Batch: batchKeys}
	single := load.Spec{Op: load.OpPut, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys}
	return []side.Row{
		{Name: "batches of 64 against single puts, 100 clients", Spec: batch, PeerSpec: &single, Per: batchKeys, Rate: 6, Quick: true},
		{Name: "batches of 64 against Txn of 64, 100 clients", Spec: batch, Per: batchKeys},
	}
}

func watches() []side.Row {
	all := load.Spec{Op: load.OpWatchAll, Watchers: 1000, Clients: 10, Conns: conns, ValueBytes: 256, Keys: 1000}
	own := load.Spec{Op: load.OpWatchKeys, Watchers: 10_000, Clients: 100, Conns: conns, ValueBytes: 256, Keys: keys}
	paced := own
	paced.Rate = 1000
	return []side.Row{
		{Name: "1,000 watchers of one prefix, events", Spec: all, Rate: 2, Quick: true},
		{Name: "10,000 watchers of a key each, events", Spec: own, Rate: 2},
		{Name: "10,000 watchers of a key each, 1,000 puts/s", Spec: paced, P99: 1},
	}
}

// apiKeys are fewer: each is an object, with its managed fields.
const apiKeys = 1000

// throughAPI shows what objects cost above keys: decoding, admission, merging, rendering, the audit log.
func throughAPI() []side.Row {
	put := load.Spec{Op: load.OpPut, Clients: 100, Conns: conns, ValueBytes: 256, Keys: apiKeys}
	get := put
	get.Op = load.OpGet
	return []side.Row{
		{Name: "HTTPS API: update of a ConfigMap, 100 clients", Spec: put, API: true, Alone: true},
		{Name: "HTTPS API: read of a ConfigMap, 100 clients", Spec: get, API: true, Alone: true},
	}
}

func rows() []side.Row {
	all := []side.Row{put(1, 256), put(100, 256), put(1000, 256), put(1, 1024), put(100, 1024), put(1000, 1024), putIf(100), putIf(1000)}
	all = append(all, batches()...)
	all = append(all, get(load.OpGet, 1, 0), get(load.OpGet, 100, 1.5), get(load.OpGet, 1000, 1.5), get(load.OpGetStale, 100, 0), get(load.OpGetStale, 1000, 0))
	return append(append(all, watches()...), throughAPI()...)
}
