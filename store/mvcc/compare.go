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

// markHash brings what is saved once per transaction up to date, so that the hash is that of the index however entries are grouped.
func (t *transaction) markHash() error {
	if err := t.saveWriters(); err != nil {
		return err
	}
	t.hashes = append(t.hashes, IndexHash{Index: t.applied, Hash: t.digest()})
	return nil
}

func (s *Store) keepHashes(more []IndexHash) {
	if len(more) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes = append(s.hashes, more...)
	if n := len(s.hashes) - keptHashes; n > 0 {
		s.hashes = slices.Delete(s.hashes, 0, n)
	}
}

// Hashes are those of the newest indexes that were passed since the store was opened or restored, by rising index. Members
// that hold the same index hold the same hash, or one of them has diverged.
func (s *Store) Hashes() []IndexHash {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.hashes)
}
