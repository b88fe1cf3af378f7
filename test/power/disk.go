package power

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
)

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// Image is what is on the disk while the power is off: contents by name.
type Image map[string][]byte

// file is one file as programs see it and as it would be found after a cut.
type file struct {
	now    []byte
	synced []byte
	since  []change // since the last sync, in order
}

// change is one write, or a change of size when data is nil.
type change struct {
	at   int64
	data []byte
}

func (c change) apply(b []byte) []byte {
	if c.data == nil {
		if int64(len(b)) >= c.at {
			return b[:c.at:c.at]
		}
		return append(b, make([]byte, c.at-int64(len(b)))...)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[c.at:], c.data)
	return b
}

// entry is one step in the directory: file is what the name leads to afterwards, nil for nothing. gone is a name that vanishes
// in the same step.
type entry struct {
	name string
	file *file
	gone string
}

func (e entry) apply(names map[string]*file) {
	delete(names, e.gone)
	if e.file == nil {
		delete(names, e.name)
		return
	}
	names[e.name] = e.file
}

// disk is one directory of files. After left changes the power is gone: what changes anything fails with EIO from then on, reads
// still answer from what programs last saw, so that they can come to an end.
type disk struct {
	mu     sync.Mutex
	names  map[string]*file
	synced map[string]*file
	since  []entry
	left   int // changes and syncs until the cut
}

func newDisk(from Image, left int) *disk {
	d := &disk{names: map[string]*file{}, left: left}
	for name, b := range from {
		d.names[name] = &file{now: slices.Clone(b), synced: slices.Clone(b)}
	}
	d.synced = maps.Clone(d.names)
	return d
}

// spend counts a change. cut: the power went in the middle of this one, or before.
func (d *disk) spend() (under, cut bool) {
	d.left--
	return d.left == 0, d.left <= 0
}

// change records a write or a new size. What was under way when the power went may reach the disk.
func (d *disk) change(f *file, c change) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	under, cut := d.spend()
	if !cut || under {
		f.since = append(f.since, c)
	}
	if cut {
		return syscall.EIO
	}
	f.now = c.apply(f.now)
	return 0
}

func (d *disk) link(e entry) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	under, cut := d.spend()
	if !cut || under {
		d.since = append(d.since, e)
	}
	if cut {
		return syscall.EIO
	}
	e.apply(d.names)
	return 0
}

func (d *disk) sync(f *file) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, cut := d.spend(); cut {
		return syscall.EIO
	}
	for _, c := range f.since {
		f.synced = c.apply(f.synced)
	}
	f.since = nil
	return 0
}

func (d *disk) syncDir() syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, cut := d.spend(); cut {
		return syscall.EIO
	}
	d.synced, d.since = maps.Clone(d.names), nil
	return 0
}

// read copies what programs see into b.
func (d *disk) read(f *file, b []byte, at int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at >= int64(len(f.now)) {
		return 0
	}
	return copy(b, f.now[at:])
}

func (d *disk) size(f *file) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(len(f.now))
}

// survivors is the disk when the power comes back.
func (d *disk) survivors(rng *rand.Rand) Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.since[:rng.IntN(len(d.since)+1)] {
		e.apply(d.synced)
	}
	out := Image{}
	for _, name := range slices.Sorted(maps.Keys(d.synced)) { // in order, for the seed's sake
		out[name] = d.synced[name].survive(rng)
	}
	return out
}

// survive is what a cut leaves of a file.
func (f *file) survive(rng *rand.Rand) []byte {
	kept := slices.Clone(f.since)
	switch rng.IntN(4) {
	case 0: // nothing had left the cache
		return f.synced
	case 1: // all of it had
	default:
		kept = slices.DeleteFunc(kept, func(change) bool { return rng.IntN(2) == 0 })
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(kept), func(i, j int) { kept[i], kept[j] = kept[j], kept[i] })
		}
	}
	b := slices.Clone(f.synced)
	for _, c := range kept {
		for _, part := range c.torn(rng) {
			b = part.apply(b)
		}
	}
	return b
}

// torn is the change as it arrived: now and then only some of its sectors did.
func (c change) torn(rng *rand.Rand) []change {
	if len(c.data) <= sector || rng.IntN(4) > 0 {
		return []change{c}
	}
	var parts []change
	for at := 0; at < len(c.data); at += sector {
		if rng.IntN(2) == 0 {
			parts = append(parts, change{at: c.at + int64(at), data: c.data[at:min(at+sector, len(c.data))]})
		}
	}
	return parts
}
