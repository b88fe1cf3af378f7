package registry

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
)

// The keys of a Sealer change while it is used: a new one is added and opens, later it seals, and one that nothing is sealed by any more
// goes. Each change is on the disk before it holds.

// NewSealingKey makes a key at random.
func NewSealingKey() ([]byte, error) {
	key := make([]byte, sealKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make seal key: %w", err)
	}
	return key, nil
}

// KeyIDOf is the id by which values name a key. It tells nothing of the key.
func KeyIDOf(key []byte) string { return hexID(key) }

// IDs are those of the keys; the first seals.
func (s *Sealer) IDs() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]string, len(s.keys))
	for i, k := range s.keys {
		out[i] = hexID(k)
	}
	return out
}

// Has reports whether a value sealed by the key of the id can be opened.
func (s *Sealer) Has(id string) bool { return slices.Contains(s.IDs(), id) }

// Reveal returns the key of an id, for another member.
func (s *Sealer) Reveal(id string) ([]byte, bool) {
	if id == "" {
		return nil, false
	}
	k, err := s.key(id)
	return slices.Clone(k), err == nil
}

// Add takes a key that opens and does not seal yet. Adding one that is there changes nothing.
func (s *Sealer) Add(key []byte) error {
	if len(key) != sealKeyBytes {
		return fmt.Errorf("sealer: key of %d bytes, want %d", len(key), sealKeyBytes)
	}
	return s.change(func(keys [][]byte) ([][]byte, error) {
		if slices.ContainsFunc(keys, func(k []byte) bool { return hexID(k) == hexID(key) }) {
			return keys, nil
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("sealer: %d keys are kept already: drop old ones first (drover hub rotate-encryption-key --drop-old)", maxKeys)
		}
		return slices.Insert(keys, 1, slices.Clone(key)), nil
	})
}

// Prefer makes a key that is there the one that seals.
func (s *Sealer) Prefer(id string) error {
	return s.change(func(keys [][]byte) ([][]byte, error) {
		i := slices.IndexFunc(keys, func(k []byte) bool { return hexID(k) == id })
		if i < 0 {
			return nil, fmt.Errorf("%w: this member does not have the key %s", ErrSealed, id)
		}
		k := keys[i]
		return slices.Insert(slices.Delete(keys, i, i+1), 0, k), nil
	})
}

// Drop forgets keys for good. The one that seals is never dropped.
func (s *Sealer) Drop(ids ...string) error {
	return s.change(func(keys [][]byte) ([][]byte, error) {
		return append(keys[:1:1], slices.DeleteFunc(keys[1:], func(k []byte) bool { return slices.Contains(ids, hexID(k)) })...), nil
	})
}

// change lets do alter a copy of the keys and puts it into force once it is in the file. On an error nothing is changed.
func (s *Sealer) change(do func([][]byte) ([][]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, err := do(slices.Clone(s.keys))
	if err != nil {
		return err
	}
	if slices.EqualFunc(keys, s.keys, func(a, b []byte) bool { return hexID(a) == hexID(b) }) {
		return nil
	}
	next := &Sealer{path: s.path, keys: keys, hash: s.hash}
	if s.path != "" {
		if err := next.save(os.Rename); err != nil {
			return err
		}
	}
	s.keys = keys
	return nil
}
