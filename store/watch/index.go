package watch

import (
	"slices"

	"github.com/drover-fleet/drover/store"
)

// liveIndex finds the watchers of a key. Watchers of one key and of a prefix, which is what nearly all are, are found by
// hashing; a key is looked up once for each length that a watched prefix has. Other ranges are walked.
type liveIndex struct {
	points   map[string]watchers
	prefixes map[string]watchers
	lengths  []prefixLength // ascending; of the prefixes
	ranges   watchers
}

type prefixLength struct{ bytes, prefixes int }

func newLiveIndex() liveIndex {
	return liveIndex{points: map[string]watchers{}, prefixes: map[string]watchers{}}
}

func isPrefix(r *store.WatchRequest) bool { return r.End == store.PrefixEnd(r.Start) }

func (x *liveIndex) add(w *Watcher) {
	switch {
	case w.req.End == "":
		x.points[w.req.Start] = x.points[w.req.Start].with(w)
	case isPrefix(&w.req):
		had := x.prefixes[w.req.Start]
		if len(had) == 0 {
			x.countLength(len(w.req.Start), 1)
		}
		x.prefixes[w.req.Start] = had.with(w)
	default:
		x.ranges = x.ranges.with(w)
	}
}

func (x *liveIndex) remove(w *Watcher) {
	switch {
	case w.req.End == "":
		x.points[w.req.Start] = x.points[w.req.Start].without(w)
		if len(x.points[w.req.Start]) == 0 {
			delete(x.points, w.req.Start)
		}
	case isPrefix(&w.req):
		x.prefixes[w.req.Start] = x.prefixes[w.req.Start].without(w)
		if len(x.prefixes[w.req.Start]) == 0 {
			delete(x.prefixes, w.req.Start)
			x.countLength(len(w.req.Start), -1)
		}
	default:
		x.ranges = x.ranges.without(w)
	}
}

func (x *liveIndex) countLength(bytes, by int) {
	n, found := slices.BinarySearchFunc(x.lengths, bytes, func(l prefixLength, bytes int) int { return l.bytes - bytes })
	if !found {
		x.lengths = slices.Insert(x.lengths, n, prefixLength{bytes: bytes})
	}
	if x.lengths[n].prefixes += by; x.lengths[n].prefixes == 0 {
		x.lengths = slices.Delete(x.lengths, n, n+1)
	}
}

// each visits the watchers of a key, in an order that depends only on how they came.
func (x *liveIndex) each(key string, visit func(*Watcher)) {
	for _, w := range x.points[key] {
		visit(w)
	}
	for _, l := range x.lengths {
		if l.bytes > len(key) {
			break
		}
		for _, w := range x.prefixes[key[:l.bytes]] {
			visit(w)
		}
	}
	for _, w := range x.ranges {
		if contains(w.req.Start, w.req.End, key) {
			visit(w)
		}
	}
}

func contains(start, end, key string) bool {
	if end == "" {
		return key == start
	}
	return start <= key && key < end
}

// watchers is a set in order of their ids.
type watchers []*Watcher

func (s watchers) find(w *Watcher) (int, bool) {
	return slices.BinarySearchFunc(s, w, func(a, b *Watcher) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
}

func (s watchers) with(w *Watcher) watchers {
	n, _ := s.find(w)
	return slices.Insert(s, n, w)
}

func (s watchers) without(w *Watcher) watchers {
	if n, found := s.find(w); found {
		return slices.Delete(s, n, n+1)
	}
	return s
}
