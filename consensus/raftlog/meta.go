package raftlog

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var (
	bucketLog  = []byte("log")
	bucketMeta = []byte("meta")

	keyIdentity = []byte("identity")
	keyHard     = []byte("hard")
	keyConf     = []byte("conf")
	keyBegin    = []byte("begin")
	keyRecords  = []byte("records")
	keyPending  = []byte("pending")
)

// Identity says who the owner of the file is.
type Identity struct {
	ID   uint64 `cbor:"1,keyasint"` // the member's raft id, never 0 in a prepared file
	Name string `cbor:"2,keyasint"`
	// Generation counts how often the member started over under a new id.
	Generation uint64 `cbor:"3,keyasint,omitempty"`
}

// Conf is a membership. Index is the entry as of which it holds: conf changes up to and including Index are in it.
type Conf struct {
	Index   uint64
	State   *pb.ConfState
	Members []byte // names and addresses, opaque here
}

// EntryID names an entry.
type EntryID struct {
	Index uint64 `cbor:"1,keyasint"`
	Term  uint64 `cbor:"2,keyasint"`
}

// Seed is where a log begins that does not begin at its first entry: after a snapshot, or at bootstrap.
type Seed struct {
	Begin EntryID
	Conf  Conf
}

// Record is what a member is known to have acknowledged as durable: up to Index, to a leader of Term. A member's own
// (term, last index) is never below any true record of it, so one that is has lost part of its log.
type Record struct {
	ID    uint64 `cbor:"1,keyasint"`
	Term  uint64 `cbor:"2,keyasint"`
	Index uint64 `cbor:"3,keyasint"`
}

// Meta is everything but the entries. It is a copy; changing it changes nothing.
type Meta struct {
	Identity Identity
	Hard     *pb.HardState // never nil, empty when nothing was written
	Conf     Conf
	Begin    EntryID
	Records  []Record
	Pending  *Seed // an installation that was begun and not finished
}

type confCBOR struct {
	Index   uint64 `cbor:"1,keyasint"`
	State   []byte `cbor:"2,keyasint"`
	Members []byte `cbor:"3,keyasint"`
}

type seedCBOR struct {
	Begin EntryID  `cbor:"1,keyasint"`
	Conf  confCBOR `cbor:"2,keyasint"`
}

func (c Conf) pack() (confCBOR, error) {
	state, err := proto.Marshal(pb.EnsureConfState(c.State))
	if err != nil {
		return confCBOR{}, fmt.Errorf("encode membership: %w", err)
	}
	return confCBOR{Index: c.Index, State: state, Members: c.Members}, nil
}

func (c confCBOR) unpack() (Conf, error) {
	state := &pb.ConfState{}
	if err := proto.Unmarshal(c.State, state); err != nil {
		return Conf{}, fmt.Errorf("decode membership: %w", err)
	}
	return Conf{Index: c.Index, State: state, Members: c.Members}, nil
}

func putCBOR(b *bbolt.Bucket, key []byte, v any) error {
	data, err := cbor.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return b.Put(key, seal(data))
}

// readCBOR leaves v alone when the key is absent.
func readCBOR(b *bbolt.Bucket, key []byte, v any) (found bool, err error) {
	data, err := unseal(b, key)
	if data == nil || err != nil {
		return false, err
	}
	if err := cbor.Unmarshal(data, v); err != nil {
		return true, fmt.Errorf("decode %s: %w", key, err)
	}
	return true, nil
}

func putConf(b *bbolt.Bucket, c Conf) error {
	packed, err := c.pack()
	if err != nil {
		return err
	}
	return putCBOR(b, keyConf, packed)
}

func putHard(b *bbolt.Bucket, h *pb.HardState) error {
	data, err := proto.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode hard state: %w", err)
	}
	return b.Put(keyHard, seal(data))
}

func readMeta(b *bbolt.Bucket) (Meta, error) {
	m := Meta{Hard: &pb.HardState{}, Conf: Conf{State: &pb.ConfState{}}}
	var conf confCBOR
	var pending seedCBOR
	_, errID := readCBOR(b, keyIdentity, &m.Identity)
	_, errBegin := readCBOR(b, keyBegin, &m.Begin)
	_, errRecords := readCBOR(b, keyRecords, &m.Records)
	_, errConf := readCBOR(b, keyConf, &conf)
	hasPending, errPending := readCBOR(b, keyPending, &pending)
	if err := errors.Join(errID, errBegin, errRecords, errConf, errPending); err != nil {
		return Meta{}, err
	}
	data, err := unseal(b, keyHard)
	if err != nil {
		return Meta{}, err
	}
	if data != nil {
		if err := proto.Unmarshal(data, m.Hard); err != nil {
			return Meta{}, fmt.Errorf("decode hard state: %w", err)
		}
	}
	if m.Conf, err = conf.unpack(); err != nil {
		return Meta{}, err
	}
	if hasPending {
		seed := Seed{Begin: pending.Begin}
		if seed.Conf, err = pending.Conf.unpack(); err != nil {
			return Meta{}, err
		}
		m.Pending = &seed
	}
	return m, nil
}
