//go:build plant

package mvcc

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// See plant_off.go. Set before any store is used.
var plantAppliedApart, plantWatchLate, plantTombstoneLost, plantTermUnchecked, plantSetHalfRead bool

// Plant switches the fault of this name on, and all others off; "" is none.
func Plant(name string) error {
	all := map[string]*bool{
		"applied-apart": &plantAppliedApart, "watch-late": &plantWatchLate, "tombstone-lost": &plantTombstoneLost,
		"term-unchecked": &plantTermUnchecked, "set-half-read": &plantSetHalfRead,
	}
	for n, on := range all {
		*on = n == name
	}
	if all[name] == nil && name != "" {
		return fmt.Errorf("mvcc: no fault %q to plant", name)
	}
	return nil
}

func (s *Store) commitApart(t *transaction) error {
	applied, term := t.applied, t.term
	t.applied, t.term = s.now.applied, s.now.term
	err := t.save()
	t.applied, t.term = applied, term
	if err == nil {
		err = t.tx.Commit()
	}
	if err != nil {
		return err
	}
	s.committed()
	err = s.db.Update(func(tx *bolt.Tx) error { return t.state.save(tx.Bucket([]byte(bucketMeta))) })
	if err != nil {
		return err
	}
	s.committed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = &t.state
	return nil
}
