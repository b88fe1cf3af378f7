package gateway

import (
	"strconv"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

func TestWhatAMemberMayDecideFollowsFromWhatTheDeviceHolds(t *testing.T) {
	id := Identity{ClusterID: "c", Epoch: 2, EpochID: "e2"}
	rev := func(epoch uint32, n uint64) uint64 { return uint64(epoch)<<epochShift | n }
	b := &Bundle{Hash: wire.HashOf([]byte("b")), Entries: []wire.Entry{{UID: "u"}}}
	other := wire.HashOf([]byte("other"))
	recorded := func(n uint64, h wire.Hash) *api.Device {
		d := &api.Device{Metadata: api.ObjectMeta{Name: "d", ResourceVersion: "9"}}
		d.Status.Bundle.Desired = api.BundleRef{Revision: strconv.FormatUint(n, 10), Hash: h.String()}
		d.Status.Bundle.Inputs = map[string]string{"assignments": strconv.FormatUint(rev(2, 5), 10)}
		return d
	}
	held := func(cluster string, epoch uint32, epochID string, n uint64) wire.Position {
		return wire.Position{ClusterID: cluster, Epoch: epoch, EpochID: epochID, Revision: n}
	}
	fresh := map[string]progress{"assignments": {at: rev(2, 5)}}
	stale := map[string]progress{"assignments": {at: rev(2, 4)}}
	half := *b
	half.Hash, half.Unsure = other, rev(2, 5)
	behindInOne := map[string]progress{"assignments": {at: rev(2, 5)}, "workloadrevisions": {at: rev(2, 4)}}
	for _, c := range []struct {
		name string
		seen map[string]progress
		want verdict
	}{
		{"what is missing may be on its way", behindInOne, wait},
		{"what is missing is known to be", fresh, decide},
	} {
		if got := judge(id, recorded(rev(2, 5), b.Hash), c.seen, wire.Position{}, nil, &half); got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.name, got, c.want)
		}
	}
	fresher := recorded(rev(2, 5), b.Hash)
	anew := &api.Device{Metadata: api.ObjectMeta{Name: "d", ResourceVersion: strconv.FormatUint(rev(2, 7), 10)}}
	if got, err := strconv.ParseUint(nextRecord(id, anew, fresh, &Bundle{Newest: rev(2, 4)}).Desired.Revision, 10, 64); err != nil || got < rev(2, 7) {
		t.Errorf("first record of an object made at %d: %d (%v), want none lower", rev(2, 7), got, err)
	}
	for _, c := range []struct {
		name string
		d    *api.Device
		seen map[string]progress
		held wire.Position
		hash wire.Hash
		want verdict
	}{
		{"holds nothing", fresher, fresh, wire.Position{}, nil, say},
		{"holds what is recorded", fresher, fresh, held("c", 2, "e2", rev(2, 5)), b.Hash, nothing},
		{"holds another content at that position", fresher, fresh, held("c", 2, "e2", rev(2, 5)), other, say},
		{"holds an older position", fresher, fresh, held("c", 2, "e2", rev(2, 3)), other, say},
		{"holds more than this member has seen recorded", fresher, fresh, held("c", 2, "e2", rev(2, 6)), other, behind},
		{"follows a later epoch", fresher, fresh, held("c", 3, "e3", rev(3, 1)), other, behind},
		{"another cluster's", fresher, fresh, held("x", 2, "e2", rev(2, 5)), b.Hash, otherCluster},
		{"another history of the same number", fresher, fresh, held("c", 2, "forced", rev(2, 5)), b.Hash, aheadOfHub},
		{"has seen what a restore forgot", recorded(rev(1, 5), b.Hash), fresh, held("c", 1, "e1", rev(1, 9)), other, aheadOfHub},
		{"has seen no more than what was restored", recorded(rev(1, 9), b.Hash), fresh, held("c", 1, "e1", rev(1, 9)), b.Hash, decide},
		{"a view older than the record", fresher, stale, held("c", 2, "e2", rev(2, 3)), other, wait},
		{"another bundle than the recorded", recorded(rev(2, 5), other), fresh, wire.Position{}, nil, decide},
		{"was deleted and enrolled again since", anew, fresh, held("c", 2, "e2", rev(2, 6)), other, decide},
		{"holds more than this member has seen of a new object", anew, fresh, held("c", 2, "e2", rev(2, 8)), other, behind},
		{"nothing was ever recorded", &api.Device{}, fresh, wire.Position{}, nil, decide},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(id, c.d, c.seen, c.held, c.hash, b); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
	if got := judge(id, &api.Device{}, fresh, wire.Position{}, nil, &Bundle{Hash: other}); got != nothing {
		t.Errorf("a device that never had anything: verdict %d, want nothing (%d)", got, nothing)
	}
}

func TestANewEpochIsRecordedAboveEveryRevisionOfTheOldOne(t *testing.T) {
	d := &api.Device{Metadata: api.ObjectMeta{ResourceVersion: "70"}}
	d.Status.Bundle.Desired = api.BundleRef{Revision: "60"}
	got := nextRecord(Identity{Epoch: 2}, d, map[string]progress{}, &Bundle{Newest: 50})
	if want := strconv.FormatUint(2<<epochShift, 10); got.Desired.Revision != want {
		t.Errorf("revision %s, want %s", got.Desired.Revision, want)
	}
}
