package store

import (
	"fmt"
	"strconv"
)

// counterBits is the width of the counter part of a Revision. 2^40 writes at 10,000 a second last 3.4 years
// per epoch of continuous full load, and an epoch can be minted at any time.
const counterBits = 40

// Revision numbers the states of the store: epoch << 40 | counter. It is global (not per key) and only ever
// grows; within an epoch it grows by exactly one for each write that changes something. Zero means "none" in
// preconditions and "newest" in reads.
type Revision uint64

// MakeRevision joins an epoch and a counter. Counters above 2^40-1 are a broken invariant of the caller.
func MakeRevision(epoch uint32, counter uint64) Revision {
	if counter >= 1<<counterBits || uint64(epoch) >= 1<<(64-counterBits) {
		panic(fmt.Sprintf("store: revision out of range: epoch %d counter %d", epoch, counter))
	}
	return Revision(uint64(epoch)<<counterBits | counter)
}

// Epoch is the number of the history that the revision belongs to; the first history is 1.
func (r Revision) Epoch() uint32 { return uint32(r >> counterBits) }

// Counter is the place of the revision in its epoch; the first write of an epoch has counter 1.
func (r Revision) Counter() uint64 { return uint64(r) & (1<<counterBits - 1) }

// Next is the revision of the next change in the same epoch.
func (r Revision) Next() Revision { return MakeRevision(r.Epoch(), r.Counter()+1) }

// String is the decimal form used as metadata.resourceVersion.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }

// ParseRevision reads the decimal form; the empty string is the zero Revision.
func ParseRevision(s string) (Revision, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision %q: not a decimal number", s)
	}
	return Revision(n), nil
}

// Reached tells whether a store whose newest revision is have holds everything up to want: nil, ErrAhead, or ErrOtherEpoch when want
// is of a history that begins later.
func Reached(have, want Revision) error {
	switch {
	case want <= have:
		return nil
	case want.Epoch() > have.Epoch():
		return ErrOtherEpoch
	}
	return ErrAhead
}
