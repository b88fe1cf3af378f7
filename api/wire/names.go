package wire

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// nameOf is the message's name without package and pointer.
func nameOf(v any) string {
	name := fmt.Sprintf("%T", v)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Equal reports whether both are the same hash. Two absent hashes are equal.
func (h Hash) Equal(o Hash) bool { return bytes.Equal(h, o) }

// String is sha256:HEX, or "" when absent.
func (h Hash) String() string {
	if len(h) == 0 {
		return ""
	}
	return "sha256:" + hex.EncodeToString(h)
}

// Short is the first 10 hex digits, for names and for people.
func (h Hash) Short() string {
	s := hex.EncodeToString(h)
	return s[:min(len(s), 10)]
}

// ParseHash reads what String wrote; "" is the absent hash.
func ParseHash(s string) (Hash, error) {
	if s == "" {
		return nil, nil
	}
	digits, ok := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != 32 {
		return nil, fault.BadRequest.Errorf("%q is not a hash: want sha256: and 64 hex digits", s)
	}
	return b, nil
}

// IsZero reports whether nothing is held.
func (p Position) IsZero() bool { return p == Position{} }

// Compare orders by epoch, then revision: -1 when p is older than o. It means something only within one cluster.
func (p Position) Compare(o Position) int {
	if c := cmp.Compare(p.Epoch, o.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(p.Revision, o.Revision)
}

// Older reports whether p comes before o.
func (p Position) Older(o Position) bool { return p.Compare(o) < 0 }

// SameHistory reports whether both belong to one epoch of one cluster.
func (p Position) SameHistory(o Position) bool {
	return p.ClusterID == o.ClusterID && p.Epoch == o.Epoch && p.EpochID == o.EpochID
}

// Accept is the device's rule: nil when a message at next may be acted on by a device that holds p. Refused are another
// cluster's word (Forbidden), another history under the same epoch number (OtherEpoch), and what is older (Expired). A device that
// holds nothing but its cluster's id accepts any position of that cluster.
func (p Position) Accept(next Position) error {
	if p.ClusterID != "" && p.ClusterID != next.ClusterID {
		return fault.Forbidden.Errorf("message of cluster %q; this device belongs to %q", next.ClusterID, p.ClusterID)
	}
	if p.Epoch == next.Epoch && p.EpochID != "" && p.EpochID != next.EpochID {
		return fault.OtherEpoch.Errorf("message of history %q of epoch %d; this device follows %q", next.EpochID, next.Epoch, p.EpochID)
	}
	if next.Older(p) {
		return fault.Expired.Errorf("message at epoch %d revision %d is older than what is held, epoch %d revision %d", next.Epoch, next.Revision, p.Epoch, p.Revision)
	}
	return nil
}
