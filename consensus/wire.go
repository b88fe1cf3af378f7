package consensus

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

// A frame is one byte of kind and a body: a raft message, or a control message of ours.
const (
	frameRaft    = 1
	frameControl = 2
)

// control is what members say to each other outside raft. Exactly one of the pointers is set.
type control struct {
	From Member `cbor:"1,keyasint"` // the sender as it knows itself; its name must be the stream's
	To   uint64 `cbor:"2,keyasint"` // the id meant; a member that goes by another one ignores the message

	Query    *query           `cbor:"3,keyasint,omitempty"`
	Answer   *answer          `cbor:"4,keyasint,omitempty"`
	Records  []raftlog.Record `cbor:"5,keyasint,omitempty"`
	Replace  *replace         `cbor:"6,keyasint,omitempty"`
	Replaced *replaced        `cbor:"7,keyasint,omitempty"`
	Ping     *ping            `cbor:"8,keyasint,omitempty"`
	Pong     *pong            `cbor:"9,keyasint,omitempty"`
}

// query asks what is recorded of the sender, who has (Term, Last).
type query struct {
	Nonce uint64 `cbor:"1,keyasint"`
	Term  uint64 `cbor:"2,keyasint"`
	Last  uint64 `cbor:"3,keyasint"`
}

// answer is what a member knows of the asker. Confirmed: the answerer leads and a majority said so after the question.
type answer struct {
	Nonce     uint64 `cbor:"1,keyasint"`
	Leader    uint64 `cbor:"2,keyasint,omitempty"` // whom the answerer follows, 0 = nobody
	Confirmed bool   `cbor:"3,keyasint,omitempty"`
	Term      uint64 `cbor:"4,keyasint,omitempty"` // the record of the asker
	Index     uint64 `cbor:"5,keyasint,omitempty"`
	Removed   bool   `cbor:"6,keyasint,omitempty"` // with Confirmed: the asker is no member
	// Superseded, with Confirmed: the asker's name goes by another id now.
	Superseded bool `cbor:"7,keyasint,omitempty"`
}

// replace asks the leader to take a voter that lost part of its log out and in again as a learner with a new id.
type replace struct {
	Old uint64 `cbor:"1,keyasint"`
	New uint64 `cbor:"2,keyasint"`
}

// replaced says that it is done.
type replaced struct {
	Old     uint64   `cbor:"1,keyasint"`
	New     uint64   `cbor:"2,keyasint"`
	Members []Member `cbor:"3,keyasint"`
}

// ping asks for a sign of life and how the receiver's disk does.
type ping struct {
	Seq uint64 `cbor:"1,keyasint"`
}

type pong struct {
	Seq uint64 `cbor:"1,keyasint"` // the ping's
	Lag uint64 `cbor:"2,keyasint"` // ticks: the longest write of late, or the present one
}

// decodeStrict bounds what a control message may hold before anything is allocated for it.
func decodeStrict(data []byte, v any) error {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxNestedLevels: 8, MaxArrayElements: 1024, MaxMapPairs: 1024,
	}.DecMode()
	if err != nil {
		return err
	}
	return mode.Unmarshal(data, v)
}

var errFrame = errors.New("malformed frame")

func encodeRaft(m *pb.Message) ([]byte, error) {
	frame, err := proto.MarshalOptions{}.MarshalAppend([]byte{frameRaft}, m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return frame, nil
}

func encodeControl(c *control) ([]byte, error) {
	body, err := cbor.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode control message: %w", err)
	}
	return append([]byte{frameControl}, body...), nil
}

// decodeFrame returns one of the two. Local messages of raft are refused: nobody may send them over the network.
func decodeFrame(frame []byte) (*pb.Message, *control, error) {
	if len(frame) == 0 || len(frame) > MaxFrame {
		return nil, nil, fmt.Errorf("%w: %d bytes", errFrame, len(frame))
	}
	switch frame[0] {
	case frameRaft:
		m := &pb.Message{}
		if err := proto.Unmarshal(frame[1:], m); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errFrame, err)
		}
		if err := checkMessage(m); err != nil {
			return nil, nil, err
		}
		return m, nil, nil
	case frameControl:
		c := &control{}
		if err := decodeStrict(frame[1:], c); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errFrame, err)
		}
		return nil, c, nil
	}
	return nil, nil, fmt.Errorf("%w: kind %d", errFrame, frame[0])
}

func checkMessage(m *pb.Message) error {
	switch {
	case m.GetFrom() == 0 || m.GetTo() == 0:
		return fmt.Errorf("%w: %s without sender or receiver", errFrame, m.GetType())
	case raft.IsLocalMsg(m.GetType()) || raft.IsLocalMsgTarget(m.GetFrom()):
		return fmt.Errorf("%w: local message %s from the network", errFrame, m.GetType())
	case m.GetType() == pb.MsgSnap:
		return fmt.Errorf("%w: snapshot outside of its stream", errFrame)
	case m.GetType() == pb.MsgProp && len(m.GetEntries()) == 0:
		return fmt.Errorf("%w: empty proposal", errFrame)
	}
	return nil
}

// snapshotHeader precedes the bytes of a snapshot on their stream.
type snapshotHeader struct {
	Message []byte `cbor:"1,keyasint"` // raftpb.Message of type MsgSnap, metadata only
	Conf    uint64 `cbor:"2,keyasint"` // the index as of which Members and the message's ConfState hold; not below the snapshot's
	Members []byte `cbor:"3,keyasint"`
}

func encodeSnapshotHeader(m *pb.Message, confIndex uint64, members []byte) ([]byte, error) {
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot header: %w", err)
	}
	return cbor.Marshal(snapshotHeader{Message: body, Conf: confIndex, Members: members})
}

func decodeSnapshotHeader(data []byte) (*pb.Message, raftlog.Conf, error) {
	var h snapshotHeader
	if err := decodeStrict(data, &h); err != nil {
		return nil, raftlog.Conf{}, fmt.Errorf("%w: snapshot header: %w", errFrame, err)
	}
	m := &pb.Message{}
	if err := proto.Unmarshal(h.Message, m); err != nil {
		return nil, raftlog.Conf{}, fmt.Errorf("%w: snapshot header: %w", errFrame, err)
	}
	meta := m.GetSnapshot().GetMetadata()
	if m.GetType() != pb.MsgSnap || m.GetFrom() == 0 || meta.GetIndex() == 0 || meta.GetTerm() == 0 || h.Conf > meta.GetIndex()+1<<32 {
		return nil, raftlog.Conf{}, fmt.Errorf("%w: snapshot header is incomplete", errFrame)
	}
	if _, err := decodeMembers(h.Members); err != nil {
		return nil, raftlog.Conf{}, err
	}
	conf := raftlog.Conf{Index: max(h.Conf, meta.GetIndex()), State: meta.GetConfState(), Members: h.Members}
	return m, conf, nil
}

func encodeMembers(members []Member) []byte {
	data, err := cbor.Marshal(members)
	if err != nil {
		panic(fmt.Sprintf("consensus: encode members %v: %v", members, err)) // plain strings and numbers
	}
	return data
}

func decodeMembers(data []byte) ([]Member, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var members []Member
	if err := decodeStrict(data, &members); err != nil {
		return nil, fmt.Errorf("decode members: %w", err)
	}
	return members, nil
}

// confChange is the context of a membership entry: what was asked for. Members judge it alike when they apply it.
type confChange struct {
	Op     string `cbor:"1,keyasint"` // add, promote, remove, replace or update
	Member Member `cbor:"2,keyasint"`
	Old    uint64 `cbor:"3,keyasint,omitempty"` // replace: the id that goes
}
