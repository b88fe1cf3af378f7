package replica

import (
	"testing"

	"github.com/drover-fleet/drover/store/mvcc"
)

func TestF39OnlyAMajorityCallsAMemberTheOddOneOut(t *testing.T) {
	at := func(index uint64, hash byte) mvcc.IndexHash {
		return mvcc.IndexHash{Index: index, Hash: [32]byte{hash}}
	}
	is := func(h ...mvcc.IndexHash) []mvcc.IndexHash { return h }
	for _, tt := range []struct {
		name    string
		mine    []mvcc.IndexHash
		others  [][]mvcc.IndexHash
		members int
		want    Divergence
		found   bool
	}{
		{"all agree", is(at(64, 1), at(128, 2)), [][]mvcc.IndexHash{is(at(64, 1), at(128, 2)), is(at(128, 2))}, 3, Divergence{}, false},
		{"no index in common", is(at(64, 1)), [][]mvcc.IndexHash{is(at(128, 2)), is(at(192, 2))}, 3, Divergence{}, false},
		{"I am the odd one", is(at(64, 1), at(128, 9)), [][]mvcc.IndexHash{is(at(64, 1), at(128, 2)), is(at(128, 2))}, 3, Divergence{128, true}, true},
		{"another is the odd one", is(at(128, 2)), [][]mvcc.IndexHash{is(at(128, 9)), is(at(128, 2))}, 3, Divergence{128, false}, true},
		{"one of two: nobody can tell", is(at(128, 2)), [][]mvcc.IndexHash{is(at(128, 9))}, 2, Divergence{128, false}, true},
		{"the third does not answer", is(at(128, 2)), [][]mvcc.IndexHash{is(at(128, 9))}, 3, Divergence{128, false}, true},
		{"three ways", is(at(128, 1)), [][]mvcc.IndexHash{is(at(128, 2)), is(at(128, 3))}, 3, Divergence{128, false}, true},
		{"behind, yet the odd one", is(at(64, 9)), [][]mvcc.IndexHash{is(at(64, 1), at(128, 2)), is(at(64, 1), at(128, 2))}, 3, Divergence{64, true}, true},
	} {
		if got, found := Compare(tt.mine, tt.others, tt.members); got != tt.want || found != tt.found {
			t.Errorf("%s: got %+v, %v, want %+v, %v", tt.name, got, found, tt.want, tt.found)
		}
	}
}
