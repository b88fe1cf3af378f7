package gateway

import (
	"strconv"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

func TestF33DeviceAheadOfTheHubFollowsOnlyWhatWasDecidedForThisEpoch(t *testing.T) {
	id := Identity{ClusterID: "c", Epoch: 2, EpochID: "e2"}
	rev := func(epoch uint32, n uint64) uint64 { return uint64(epoch)<<epochShift | n }
	b := &Bundle{Hash: wire.HashOf([]byte("b"))}
	held := wire.Position{ClusterID: "c", Epoch: 1, EpochID: "e1", Revision: rev(1, 9)}
	for _, c := range []struct {
		follow string
		want   verdict
	}{
		{"", aheadOfHub}, {"adopt e2", decide}, {"overwrite e2", decide}, {"adopt e1", aheadOfHub}, {"perhaps e2", aheadOfHub}, {"adopt", aheadOfHub},
	} {
		d := &api.Device{Metadata: api.ObjectMeta{Name: "d", ResourceVersion: "9", Annotations: map[string]string{AnnotationFollow: c.follow}}}
		d.Status.Bundle.Desired = api.BundleRef{Revision: strconv.FormatUint(rev(1, 5), 10), Hash: b.Hash.String()}
		if got := judge(id, d, map[string]progress{}, held, nil, b); got != c.want {
			t.Errorf("%q: verdict %d, want %d", c.follow, got, c.want)
		}
		n, err := strconv.ParseUint(nextRecord(id, d, map[string]progress{}, b).Desired.Revision, 10, 64)
		next := wire.Position{ClusterID: "c", Epoch: 2, EpochID: "e2", Revision: n}
		if err != nil || held.Accept(next) != nil {
			t.Errorf("%q: the device would not accept %+v (%v)", c.follow, next, held.Accept(next))
		}
	}
}

func TestF33OnlyAnOverwrittenDeviceIsToldToStopWhatTheHubDoesNotKnow(t *testing.T) {
	in := reportInputs{
		id:          Identity{ClusterID: "c", Epoch: 2, EpochID: "e2"},
		assignments: map[string]*api.Assignment{"known": {}},
		tombstones:  map[string]*api.Tombstone{"x": {Spec: api.TombstoneSpec{Device: "pi-07", UID: "buried"}}},
	}
	r := wire.Report{Statuses: []wire.Status{{UID: "buried"}, {UID: "gone"}, {UID: "known"}, {UID: "phantom"}}, Gone: []string{"gone"}}
	for follow, want := range map[string]int{"": 0, "adopt e2": 0, "overwrite e1": 0, "overwrite e2": 1} {
		in.device = &api.Device{Metadata: api.ObjectMeta{Name: "pi-07", Annotations: map[string]string{AnnotationFollow: follow}}}
		items := planBurials(in, r)
		if len(items) != want {
			t.Errorf("%q: got %d tombstones, want %d", follow, len(items), want)
			continue
		}
		for _, i := range items {
			if ts := i.Object.(*api.Tombstone); ts.Spec.UID != "phantom" || api.Validate(ts) != nil {
				t.Errorf("%q: got a tombstone of %q that is %v, want a valid one of phantom", follow, ts.Spec.UID, api.Validate(ts))
			}
		}
	}
}
