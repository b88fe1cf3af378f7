package mvcc

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// maxBehind times CheckpointBytes may be in memory before Apply waits for the disk.
const maxBehind = 4

// Checkpoint brings the file up to everything that was applied before the call, in one synced transaction. Applying and reading
// go on meanwhile. It does nothing when nothing was applied since the last one. After an error nothing is applied any more:
// what the file holds then is known only once it is opened again.
func (s *Store) Checkpoint() error {
	for {
		s.applyMu.Lock()
		before, err := s.underWay()
		var f *checkpoint
		if before == nil && err == nil {
			f = s.freeze()
		}
		s.applyMu.Unlock()
		switch {
		case err != nil:
			return err
		case before != nil:
			<-before
		case f == nil:
			return nil
		default:
			return s.write(f)
		}
	}
}

func (s *Store) underWay() (ended <-chan struct{}, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.writing, s.failed
}

// settle waits for the end of the checkpoint under way. It runs under applyMu, so that no other begins.
func (s *Store) settle() {
	if ended, _ := s.underWay(); ended != nil {
		<-ended
	}
}

// checkpointIfDue runs under applyMu.
func (s *Store) checkpointIfDue() {
	size := s.state().fresh.size
	if size < s.o.CheckpointBytes {
		return
	}
	if before, _ := s.underWay(); before != nil {
		if size < maxBehind*s.o.CheckpointBytes {
			return
		}
		<-before
	}
	switch f := s.freeze(); {
	case f == nil:
	case s.o.Inline:
		_ = s.write(f) // the next Apply returns it
	default:
		go func() { _ = s.write(f) }()
	}
}

// checkpoint is a state on its way to the file.
type checkpoint struct {
	state *state
	db    *bolt.DB
}

// freeze begins a checkpoint of the newest state: what is applied from now on goes into another layer. It runs under applyMu while
// none is under way.
func (s *Store) freeze() *checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.failed != nil || s.synced == s.now.applied {
		return nil
	}
	f := &checkpoint{state: s.now, db: s.db}
	next := *s.now
	next.fresh = newLayer()
	s.old, s.now, s.writing = f.state.fresh, &next, make(chan struct{})
	return f
}

func (s *Store) write(f *checkpoint) error {
	ended := s.o.Checkpoint(f.state.fresh.size)
	err := s.commit(f)
	if err != nil {
		err = fmt.Errorf("write state file %s: %w", s.path, err)
	}
	s.mu.Lock()
	if err == nil {
		s.old, s.synced = nil, f.state.applied
	} else {
		s.failed = err // old stays, for those who read on
	}
	close(s.writing)
	s.writing = nil
	s.mu.Unlock()
	ended(err)
	return err
}

// commit writes effect and index in one transaction.
func (s *Store) commit(f *checkpoint) error {
	if plantAppliedApart {
		return s.commitApart(f)
	}
	err := f.db.Update(func(tx *bolt.Tx) error {
		if err := f.state.fresh.write(tx); err != nil {
			return err
		}
		return writeTree(bucketMeta.of(tx), bucketMeta, f.state.numbers())
	})
	if err == nil {
		s.o.Committed()
	}
	return err
}
