package mvcc

import (
	"slices"

	"github.com/google/btree"

	"github.com/drover-fleet/drover/store"
)

// indexDegree is the B-tree's: wide enough to be shallow, narrow enough that copying a node on write is cheap.
const indexDegree = 32

// mark is one version of a key: where it lies, and whether it ended the key's life.
type mark struct {
	rev  store.Revision
	dead bool
}

// entry is everything the index knows of one key. It is immutable: a change makes a new entry, so readers of an older
// index are undisturbed. Most keys have one version, which needs no slice.
type entry struct {
	key   string
	last  mark
	older []mark // ascending, all below last
}

// index maps keys to entries in key order. Clone is cheap and leaves both sides independent.
type index = *btree.BTreeG[*entry]

func newIndex() index {
	return btree.NewG(indexDegree, func(a, b *entry) bool { return a.key < b.key })
}

// at is the version that stands at r, a tombstone included.
func (e *entry) at(r store.Revision) (mark, bool) {
	if e.last.rev <= r {
		return e.last, true
	}
	n, found := slices.BinarySearchFunc(e.older, r, func(m mark, r store.Revision) int {
		switch {
		case m.rev < r:
			return -1
		case m.rev > r:
			return 1
		}
		return 0
	})
	if found {
		return e.older[n], true
	}
	if n == 0 {
		return mark{}, false
	}
	return e.older[n-1], true
}

// with adds a version. The older slice may be shared with the entry before, whose readers see only their own length;
// that is sound because versions are added by one goroutine in one line of history.
func (e *entry) with(m mark) *entry {
	return &entry{key: e.key, last: m, older: append(e.older, e.last)}
}

// compact splits the versions at c: what must stay for reads at c and later, and what nothing can reach any more.
// kept is nil when the key is gone altogether.
func (e *entry) compact(c store.Revision) (kept *entry, dropped []mark) {
	all := append(slices.Clip(e.older), e.last)
	if plantTombstoneLost && len(all) > 1 && e.last.dead {
		all = all[:len(all)-1]
	}
	first := 0 // the version visible at c, or the first after c
	for first+1 < len(all) && all[first+1].rev <= c {
		first++
	}
	if all[first].rev <= c && all[first].dead {
		first++
	}
	dropped = all[:first]
	if first == len(all) {
		return nil, dropped
	}
	n := len(all) - 1
	return &entry{key: e.key, last: all[n], older: slices.Clone(all[first:n])}, dropped
}

// scan walks the entries in [start, end), or start alone when end is empty, until visit returns false.
func scan(ix index, start, end string, visit func(*entry) bool) {
	if end == "" {
		if e, ok := ix.Get(&entry{key: start}); ok {
			visit(e)
		}
		return
	}
	ix.AscendRange(&entry{key: start}, &entry{key: end}, visit)
}

// stale tells whether compact would drop anything.
func (e *entry) stale(c store.Revision) bool {
	if len(e.older) == 0 {
		return e.last.dead && e.last.rev <= c
	}
	if e.older[0].rev > c {
		return false
	}
	second := e.last
	if len(e.older) > 1 {
		second = e.older[1]
	}
	return e.older[0].dead || second.rev <= c
}
