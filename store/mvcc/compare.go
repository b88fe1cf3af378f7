package mvcc

import (
	"crypto/sha256"
	"slices"
)

// Members group entries as they come, so they keep hashes at indexes that all of them pass.
const (
	hashEvery  = 64  // entries
	keptHashes = 256 // of them
)

// IndexHash is the hash of the whole contents as of an index.
type IndexHash struct {
	Index uint64            `json:"index"`
	Hash  [sha256.Size]byte `json:"hash"`
}

// markHash brings what is saved once a call of Apply up to date, so that the hash is that of the index however entries are grouped.
func (t *transaction) markHash() {
	t.saveWriters()
	t.hashes = append(t.hashes, IndexHash{Index: t.applied, Hash: t.digest()})
}

// Hashes are those of the newest indexes that were passed since the store was opened or restored, by rising index. Members
// that hold the same index hold the same hash, or one of them has diverged.
func (s *Store) Hashes() []IndexHash {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.hashes)
}
