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

func (s *Store) commitApart(f *checkpoint) error {
	late := *f.state
	late.applied, late.term = s.Synced(), s.syncedTerm(f)
	for _, numbers := range []*state{&late, f.state} {
		err := f.db.Update(func(tx *bolt.Tx) error {
			if err := f.state.fresh.write(tx); err != nil {
				return err
			}
			return writeTree(bucketMeta.of(tx), bucketMeta, numbers.numbers())
		})
		if err != nil {
			return err
		}
		s.o.Committed()
	}
	return nil
}

// syncedTerm is that of the entry up to which the file says it goes.
func (s *Store) syncedTerm(f *checkpoint) (term uint64) {
	_ = f.db.View(func(tx *bolt.Tx) error {
		if before, err := loadMeta(bucketMeta.of(tx)); err == nil {
			term = before.term
		}
		return nil
	})
	return term
}
