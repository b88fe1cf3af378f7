package mvcc

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// sum is the hash of a set of stored pairs: the lane-wise sum of the hashes of its members. Adding and taking away
// a pair costs one SHA-256, the order does not matter, and so two members compare equal whatever their files look like.
// It finds errors; it is no defence against someone who can choose the pairs.
type sum [4]uint64

func (s *sum) add(h [sha256.Size]byte) {
	for i := range s {
		s[i] += binary.LittleEndian.Uint64(h[8*i:])
	}
}

func (s *sum) remove(h [sha256.Size]byte) {
	for i := range s {
		s[i] -= binary.LittleEndian.Uint64(h[8*i:])
	}
}

func (s *sum) bytes() []byte {
	b := make([]byte, 0, sha256.Size)
	for _, lane := range s {
		b = binary.LittleEndian.AppendUint64(b, lane)
	}
	return b
}

func parseSum(b []byte) (s sum, ok bool) {
	if len(b) != sha256.Size {
		return sum{}, false
	}
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s, true
}

// pairHasher hashes one pair at a time. Not for concurrent use.
type pairHasher struct {
	h    hash.Hash
	head []byte
}

func newPairHasher() *pairHasher { return &pairHasher{h: sha256.New()} }

func (p *pairHasher) pair(b bucket, key, value []byte) (out [sha256.Size]byte) {
	p.head = appendString(p.head[:0], b.String())
	p.head = appendString(p.head, key)
	p.h.Reset()
	p.h.Write(p.head)
	p.h.Write(value)
	p.h.Sum(out[:0])
	return out
}
