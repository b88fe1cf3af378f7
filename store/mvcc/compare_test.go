package mvcc

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/drover-fleet/drover/store"
)

// TestF39MembersHoldEqualHashesAtEqualIndexesHoweverEntriesWereGrouped, and one whose contents differ holds another.
func TestF39MembersHoldEqualHashesAtEqualIndexesHoweverEntriesWereGrouped(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 9))
	dir := t.TempDir()
	single, grouped, odd := openAt(t, filepath.Join(dir, "1")), openAt(t, filepath.Join(dir, "2")), openAt(t, filepath.Join(dir, "3"))
	m := newModel()
	var group []Entry
	for index := uint64(1); index <= 3*hashEvery; index++ {
		e, commands := entryFor(seed, index, m)
		for _, g := range commands {
			m.apply(g.command, e.Term)
		}
		applied(t, single, []Entry{e})
		if group = append(group, e); rng.IntN(20) == 0 || index == 3*hashEvery {
			applied(t, grouped, group)
			group = nil
		}
		if index == 2*hashEvery+1 { // one entry is not what it was
			e.Commands = [][]byte{encoded(&store.Command{Ops: []store.Op{put("odd", "1")}}, index, 0).raw}
		}
		applied(t, odd, []Entry{e})
	}
	a, b, c := single.Hashes(), grouped.Hashes(), odd.Hashes()
	compare(t, "hashes of the member that applied in groups", b, a)
	if len(a) != 3 || len(c) != 3 || c[0] != a[0] || c[1] != a[1] || c[2] == a[2] {
		t.Errorf("got %v of the odd member and %v of the others, want the third to differ", c, a)
	}
}
