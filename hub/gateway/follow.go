package gateway

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// A device that is ahead of the hub is left alone until a person decides for it, by the annotation AnnotationFollow with one of the words
// and the id of the present epoch. It is then told its bundle in that epoch, which it accepts since the epoch is higher. What it runs and the
// hub does not know of stays where it is adopted, and is stopped by a tombstone where it is overwritten.
const (
	AnnotationFollow = "fleet.drover.dev/follow"
	followAdopt      = "adopt"
	followOverwrite  = "overwrite"
)

// followOf is what was decided for the device in this epoch; "" is nothing. A decision for another epoch is none.
func followOf(id Identity, d *api.Device) string {
	word, epoch, ok := strings.Cut(d.Metadata.Annotations[AnnotationFollow], " ")
	if !ok || epoch != id.EpochID || word != followAdopt && word != followOverwrite {
		return ""
	}
	return word
}

// planBurials are tombstones for what an overwritten device says it holds and the hub knows nothing of.
func planBurials(in reportInputs, r wire.Report) []client.TxItem {
	if followOf(in.id, in.device) != followOverwrite {
		return nil
	}
	buried := map[string]bool{}
	for _, t := range in.tombstones {
		buried[t.Spec.UID] = true
	}
	device := in.device.Metadata.Name
	var out []client.TxItem
	for _, s := range r.Statuses {
		if in.assignments[s.UID] != nil || buried[s.UID] || slices.Contains(r.Gone, s.UID) {
			continue
		}
		out = append(out, client.TxItem{Verb: client.TxCreate, Object: &api.Tombstone{
			TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: api.KindTombstone.Kind},
			Metadata: api.ObjectMeta{Name: device + "." + s.UID},
			Spec: api.TombstoneSpec{
				Device: device, UID: s.UID, Namespace: api.DefaultNS, Name: cmp.Or(s.Revision, "unknown"), Workload: "unknown",
			},
		}})
	}
	return out
}
