package gateway

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// Inputs are everything that a bundle is a function of. Assignments and Tombstones are the device's, ordered by UID; the maps
// are by "namespace/name". The builder changes nothing of it.
type Inputs struct {
	Device      *api.Device
	Assignments []*api.Assignment
	Tombstones  []*api.Tombstone
	Revisions   map[string]*api.WorkloadRevision
	ConfigMaps  map[string]*api.ConfigMap
	Secrets     map[string]*api.Secret
	Pool        *api.DevicePool // that counts for the device; nil: none
	// Changed is, by UID, the revision of the last change of an assignment's spec, as far as the caller knows; at most its
	// resourceVersion. It only explains, it changes no content.
	Changed map[string]uint64
}

// Bundle is everything one device should run.
type Bundle struct {
	Entries    []wire.Entry      // ordered by UID
	Bodies     map[string][]byte // encoded assignments, by their hash as it prints
	Tombstones []wire.Tombstone  // ordered by UID
	Grant      *grant.Grant      // what the device's pool allows; nil: no pool counts for it
	Hash       wire.Hash         // of the whole, as the device computes it
	Problems   []Problem         // assignments that are left out, and why
	// Newest is the highest revision of a change that went in; NewestTombstone that of the tombstones.
	Newest, NewestTombstone uint64
	// Unsure is the highest revision of a change of an assignment that is left out: in a view that has not come so far in every kind,
	// what the assignment refers to may only seem to be missing.
	Unsure uint64
	// secrets are the values that the device may ask for, by the key of their reference.
	secrets map[string][]byte
}

// Problem says why an assignment cannot be resolved. The device keeps what it has of it.
type Problem struct {
	Assignment *api.Assignment
	Message    string
	Forbidden  bool // the device's pool does not allow it
}

// KeyedHash makes an id of a secret value that tells nothing about it.
type KeyedHash func(value []byte) []byte

// Build makes the bundle. It is pure and deterministic: equal inputs give equal bytes on every member.
func Build(in Inputs, keyed KeyedHash) (*Bundle, error) {
	b := &Bundle{Bodies: map[string][]byte{}, secrets: map[string][]byte{}}
	allowed := grant.Grant{}
	if in.Pool != nil {
		allowed = in.Pool.Grant()
		b.Grant = &allowed
		b.Newest = revisionOf(in.Pool.Metadata.ResourceVersion)
	}
	size := 0
	for _, a := range in.Assignments {
		r := resolver{in: in, assignment: a, keyed: keyed, secrets: map[string][]byte{}}
		body, refs, err := r.assignmentBody()
		if err == nil {
			err = body.Validate() // what a device would refuse is better said here
		}
		forbidden := false
		if denied := allowed.Judge(a.Metadata.Namespace, body.Needs()); err == nil && denied != nil {
			err, forbidden = errors.New(denied.String()), true
		}
		if err != nil {
			b.Problems = append(b.Problems, Problem{a, err.Error(), forbidden})
			b.Unsure = max(b.Unsure, in.Changed[a.Metadata.UID])
			continue
		}
		data, err := wire.Encode(body)
		if err != nil {
			return nil, fmt.Errorf("encode assignment %s/%s: %w", a.Metadata.Namespace, a.Metadata.Name, err)
		}
		adds := len(data) + b.newSecrets(r.secrets)
		if len(data) > wire.MaxBody || size+adds > wire.MaxBodies {
			b.Problems = append(b.Problems, Problem{Assignment: a, Message: fmt.Sprintf(
				"with %d bytes, its secrets included, it brings the bundle of device %s to %d bytes; the limits are %d for one copy and %d for a device",
				adds, in.Device.Metadata.Name, size+adds, wire.MaxBody, wire.MaxBodies)})
			continue
		}
		size += adds
		hash := wire.HashOf(data)
		b.Entries = append(b.Entries, wire.Entry{UID: a.Metadata.UID, SpecHash: hash, Secrets: refs})
		b.Bodies[hash.String()] = data
		for k, v := range r.secrets {
			b.secrets[k] = v
		}
		b.Newest = max(b.Newest, in.Changed[a.Metadata.UID], r.newest)
	}
	b.addTombstones(in)
	d := wire.Desired{Device: in.Device.Metadata.Name, Assignments: b.Entries, Tombstones: b.Tombstones, Grant: b.Grant}
	var err error
	if b.Hash, err = d.ComputeBundleHash(); err != nil {
		return nil, fmt.Errorf("hash the bundle of device %s: %w", d.Device, err)
	}
	return b, nil
}

// newSecrets is the size of those secrets that the bundle does not have yet.
func (b *Bundle) newSecrets(secrets map[string][]byte) int {
	n := 0
	for k, v := range secrets {
		if _, have := b.secrets[k]; !have {
			n += len(k) + len(v)
		}
	}
	return n
}

// addTombstones takes those whose assignment is not bound to the device again.
func (b *Bundle) addTombstones(in Inputs) {
	for _, t := range in.Tombstones {
		bound := slices.ContainsFunc(in.Assignments, func(a *api.Assignment) bool { return a.Metadata.UID == t.Spec.UID })
		if bound {
			continue
		}
		rev := revisionOf(t.Metadata.ResourceVersion)
		b.Tombstones = append(b.Tombstones, wire.Tombstone{UID: t.Spec.UID, Name: t.Spec.Namespace + "/" + t.Spec.Name, Revision: rev})
		b.NewestTombstone = max(b.NewestTombstone, rev)
		b.Newest = max(b.Newest, rev)
	}
}

// secret returns a value that the bundle needs.
func (b *Bundle) secret(r wire.SecretRef) ([]byte, bool) {
	v, ok := b.secrets[secretKey(r)]
	return v, ok
}

func secretKey(r wire.SecretRef) string { return r.Name + "\x00" + string(r.ID) }
