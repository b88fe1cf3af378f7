package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Entries are stored in pieces. A page of bbolt is only split when it has more than four items, and each append writes the newest
// page again: with entries whole, that would be up to four of them, however large. Four pieces fill a page of 4 KiB exactly: its
// header has 16 bytes, each item 16 more and its key.
const (
	pieceKeyBytes = 12 // index, number of the piece
	pieceBytes    = (4096-16)/4 - 16 - pieceKeyBytes
	headBytes     = 4 + sumBytes // before the first piece: encoded size of the entry, and the checksum of what is encoded
)

var errPieces = errors.New("pieces of an entry are missing")

func pieceKey(index uint64, piece int) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, pieceKeyBytes), index)
	return binary.BigEndian.AppendUint32(k, uint32(piece)) //nolint:gosec // an entry has 16 MiB at most
}

// parsePieceKey expects what pieceKey made.
func parsePieceKey(k []byte) (index uint64, piece int, err error) {
	if len(k) != pieceKeyBytes {
		return 0, 0, fmt.Errorf("key %x is of no entry", k)
	}
	return binary.BigEndian.Uint64(k), int(binary.BigEndian.Uint32(k[8:])), nil
}

// putEntry stores an entry behind all others.
func putEntry(b *bbolt.Bucket, e *pb.Entry) error {
	size := proto.Size(e)
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, headBytes, headBytes+size), e)
	if err != nil {
		return fmt.Errorf("encode entry %d: %w", e.GetIndex(), err)
	}
	binary.BigEndian.PutUint32(data, uint32(size)) //nolint:gosec // as above
	binary.BigEndian.PutUint32(data[4:], sumOf(data[headBytes:]))
	for piece := 0; len(data) > 0; piece++ {
		n := min(len(data), pieceBytes)
		if err := b.Put(pieceKey(e.GetIndex(), piece), data[:n:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// nextEntry reads the entry whose first piece c stands on, and moves c behind it. k and v are what c stands on then.
func nextEntry(c *bbolt.Cursor, k, v []byte) (e *pb.Entry, size int, nextK, nextV []byte, err error) {
	index, piece, err := parsePieceKey(k)
	if err != nil {
		return nil, 0, nil, nil, err
	}
	if piece != 0 || len(v) < headBytes {
		return nil, 0, nil, nil, fmt.Errorf("entry %d: %w", index, errPieces)
	}
	size = int(binary.BigEndian.Uint32(v))
	sum, data := binary.BigEndian.Uint32(v[4:]), v[headBytes:]
	k, v = c.Next()
	if len(data) < size {
		data = append(make([]byte, 0, min(size, 1<<20)), data...)
	}
	for want := 1; len(data) < size; want++ {
		if k == nil {
			return nil, 0, nil, nil, fmt.Errorf("entry %d: %w", index, errPieces)
		}
		if i, n, err := parsePieceKey(k); err != nil || i != index || n != want {
			return nil, 0, nil, nil, errors.Join(fmt.Errorf("entry %d: %w", index, errPieces), err)
		}
		data = append(data, v...)
		k, v = c.Next()
	}
	if len(data) != size || sumOf(data) != sum {
		return nil, 0, nil, nil, fmt.Errorf("entry %d: %w", index, errDamaged)
	}
	e = &pb.Entry{}
	if err := proto.Unmarshal(data, e); err != nil {
		return nil, 0, nil, nil, fmt.Errorf("decode entry %d: %w", index, err)
	}
	if e.GetIndex() != index {
		return nil, 0, nil, nil, fmt.Errorf("entry %d is stored as %d", e.GetIndex(), index)
	}
	return e, size, k, v, nil
}

// ends are the indexes of the first and the last entry; ok is false where there is none.
func ends(b *bbolt.Bucket) (first, last uint64, ok bool, err error) {
	c := b.Cursor()
	k, _ := c.First()
	if k == nil {
		return 0, 0, false, nil
	}
	if first, _, err = parsePieceKey(k); err != nil {
		return 0, 0, false, err
	}
	k, _ = c.Last()
	last, _, err = parsePieceKey(k)
	return first, last, err == nil, err
}

// dropFrom deletes entries with an index of at least first.
func dropFrom(b *bbolt.Bucket, first uint64) error {
	c := b.Cursor()
	from := pieceKey(first, 0)
	for k, _ := c.Seek(from); k != nil; k, _ = c.Seek(from) {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// dropUpTo deletes entries up to and including begin.
func dropUpTo(b *bbolt.Bucket, begin *EntryID) error {
	if begin == nil {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil && binary.BigEndian.Uint64(k) <= begin.Index; k, _ = c.First() {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}
