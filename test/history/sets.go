package history

import (
	"time"

	"github.com/drover-fleet/drover/store"
)

// SetRead is a read of all keys of a set at one revision. The writer of a set gives all its keys one value.
type SetRead struct {
	Client int
	Member string
	Set    string
	At     store.Revision // asked for; zero = newest
	Got    store.Revision
	Values []string // by key; "" = absent
	When   time.Duration
}

// CheckSets holds that nobody reads inside a set: all its keys have one value, whatever the revision.
func CheckSets(reads []SetRead) []Violation {
	v := violations{check: AtomicSets}
	for _, r := range reads {
		for _, val := range r.Values {
			if val != r.Values[0] {
				v.add("client %d read %s on %s at revision %d (asked for %d) as %q", r.Client, r.Set, r.Member, r.Got, r.At, r.Values)
				break
			}
		}
	}
	return v.list
}

// Sighting is a member's newest revision at a moment, while it lived and was not given the state anew.
type Sighting struct {
	Member   string
	Life     int
	Revision store.Revision
}

// CheckMonotonic holds that a member's revision never goes back within a life.
func CheckMonotonic(all []Sighting) []Violation {
	v := violations{check: Monotonic}
	type life struct {
		member string
		n      int
	}
	newest := map[life]store.Revision{}
	for _, s := range all {
		k := life{s.Member, s.Life}
		if s.Revision < newest[k] {
			v.add("%s showed revision %d after %d", s.Member, s.Revision, newest[k])
		}
		newest[k] = max(newest[k], s.Revision)
	}
	return v.list
}
