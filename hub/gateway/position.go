package gateway

import (
	"strconv"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

// How members agree on what a device should run
//
// Each member builds bundles from its own view, and views differ for moments. So a bundle is only ever said to a device after it
// was recorded: Device.status.bundle.desired holds its hash and its position's revision, Device.status.bundle.inputs the newest
// revision of each kind that the recorder had seen. The record is written with the device's resourceVersion as precondition, so
// records form one line, the same on every member. The rules:
//
//  1. A member whose view of any kind is older than inputs waits: it may not have what the recorder had. Every kind's view is a
//     prefix of history, and inputs are revisions of changes of that very kind, so each member reaches them by its own events.
//  2. A member whose bundle has the recorded hash (and no tombstone newer than the record) may say it, at the recorded position.
//  3. A member whose bundle leaves assignments out waits until its view of every kind has come to where it saw them change: what
//     they refer to was written before them, and is on its way.
//  4. A member whose bundle differs records it, at a revision above the one before, and says it after it saw its record.
//  5. A device that holds a position above the record that a member sees is ahead of that member, which decides nothing.
//
// By 1 and 4 the inputs of the line never go back in any kind, so what a device is told never goes back. The position's revision
// is the newest change among the inputs where that is above the record before (then it says why), else the device's
// own resourceVersion. Both are below the revision of the record itself, so no position is ever ahead of the store, and the
// device's resourceVersion is at least the revision of the record before, hence above its position: positions only grow.
// Writes that change no input change no hash, and so wake nobody.

// Identity names the hub's history as this member knows it.
type Identity struct {
	ClusterID string
	Epoch     uint32
	EpochID   string
}

// record is what Device.status says was decided last.
type record struct {
	revision uint64
	hash     string // as wire.Hash prints
	inputs   map[string]uint64
}

func recordOf(d *api.Device) record {
	b := d.Status.Bundle
	r := record{revision: revisionOf(b.Desired.Revision), hash: b.Desired.Hash, inputs: map[string]uint64{}}
	for k, rev := range b.Inputs {
		r.inputs[k] = revisionOf(rev)
	}
	return r
}

// verdict is what a member may do for a device now.
type verdict int

const (
	nothing      verdict = iota // the device holds what it should
	say                         // tell it the bundle at the recorded position
	decide                      // record the bundle first
	wait                        // this member's view is not there yet
	behind                      // the device has seen more than this member
	aheadOfHub                  // the device has seen what this history of the hub never said
	otherCluster                // the device belongs to another cluster
)

// judge is pure: the same inputs give the same verdict on every member.
func judge(id Identity, d *api.Device, seen map[string]progress, held wire.Position, heldHash wire.Hash, b *Bundle) verdict {
	rec := recordOf(d)
	// A device that was deleted and enrolled again holds what was said to the object before this one, of an earlier revision.
	again := rec.revision == 0 && revisionOf(d.Metadata.ResourceVersion) > held.Revision
	if !held.IsZero() {
		switch {
		case held.ClusterID != id.ClusterID:
			return otherCluster
		case held.Epoch > id.Epoch:
			return behind
		case held.Epoch == id.Epoch && held.EpochID != id.EpochID:
			return aheadOfHub
		case held.Epoch == id.Epoch && again:
		case held.Epoch == id.Epoch && held.Revision > rec.revision:
			return behind
		case held.Revision > rec.revision && followOf(id, d) == "":
			return aheadOfHub
		}
	}
	for kind, rev := range rec.inputs {
		if seen[kind].at < rev {
			return wait
		}
	}
	if epochOf(rec.revision) > id.Epoch {
		return wait
	}
	switch {
	case rec.revision == 0 && len(b.Entries) == 0 && len(b.Tombstones) == 0:
		return nothing // never had anything, has nothing
	case rec.revision == 0, rec.hash != b.Hash.String(), epochOf(rec.revision) < id.Epoch,
		b.NewestTombstone > rec.inputs[api.KindTombstone.Plural]:
		for _, p := range seen {
			if p.at < b.Unsure {
				return wait
			}
		}
		return decide
	case held.Revision == rec.revision && heldHash.String() == rec.hash:
		return nothing
	}
	return say
}

// nextRecord is the status part that records b. It changes nothing of d.
func nextRecord(id Identity, d *api.Device, seen map[string]progress, b *Bundle) api.DeviceBundle {
	rec := recordOf(d)
	rev := b.Newest
	if rev <= rec.revision || rec.revision == 0 {
		rev = max(rev, revisionOf(d.Metadata.ResourceVersion)) // above what was said to an earlier object of this name
	}
	rev = max(rev, uint64(id.Epoch)<<epochShift)
	out := d.Status.Bundle
	out.Desired = api.BundleRef{Revision: strconv.FormatUint(rev, 10), Hash: b.Hash.String()}
	out.Inputs = map[string]string{}
	for kind, p := range seen {
		if kind == api.KindDevice.Plural {
			continue // the precondition sees to it
		}
		if n := max(p.newest, rec.inputs[kind]); n > 0 {
			out.Inputs[kind] = strconv.FormatUint(n, 10)
		}
	}
	return out
}

// epochShift is where the epoch stands in a store revision.
const epochShift = 40

func epochOf(revision uint64) uint32 { return uint32(revision >> epochShift) }

// revisionOf reads a resourceVersion; what is not a number counts as "none".
func revisionOf(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
