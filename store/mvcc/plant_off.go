//go:build !plant

package mvcc

// Faults that a build with the tag "plant" can switch on, to show that the checks of test/sim find them. Here they are constants,
// so that the code that asks for them is not even compiled in.
const (
	plantAppliedApart  = false // a checkpoint saves the applied index in a transaction of its own, after its effect
	plantWatchLate     = false // a watch that resumes begins one revision late
	plantTombstoneLost = false // compaction drops the newest tombstone of a key
	plantTermUnchecked = false // a write of an earlier term of office is applied
	plantSetHalfRead   = false // a read at a revision inside a set sees half of it
)

func (s *Store) commitApart(*checkpoint) error { panic("mvcc: built without faults") }
