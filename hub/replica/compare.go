package replica

import (
	"crypto/sha256"

	"github.com/drover-fleet/drover/store/mvcc"
)

// Divergence is an index at which members hold different contents.
type Divergence struct {
	Index uint64
	// Mine: a majority of the members agree on other contents than this member's, so it is the odd one out.
	Mine bool
}

// Compare judges the contents of members by the newest index at which this member and another hold a hash, for each other member. members is
// how many there are. It finds none where all agree, or nothing can be compared.
func Compare(mine []mvcc.IndexHash, others [][]mvcc.IndexHash, members int) (Divergence, bool) {
	for i := len(mine) - 1; i >= 0; i-- {
		agreed := map[[sha256.Size]byte]int{}
		for _, o := range others {
			for _, h := range o {
				if h.Index == mine[i].Index {
					agreed[h.Hash]++
				}
			}
		}
		same := agreed[mine[i].Hash] + 1
		delete(agreed, mine[i].Hash)
		if len(agreed) == 0 {
			continue // nothing speaks against it
		}
		d := Divergence{Index: mine[i].Index}
		for _, n := range agreed {
			d.Mine = d.Mine || n > members/2 && n > same
		}
		return d, true
	}
	return Divergence{}, false
}
