package mvcc

import "github.com/drover-fleet/drover/store/watch"

// Watchers tells how many watchers there are, what they hold and how far they lag.
func (s *Store) Watchers() watch.Stats { return s.hub.Stats() }
