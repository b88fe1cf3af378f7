package history

import (
	"strings"

	"github.com/drover-fleet/drover/store"
)

// Batch is what a watcher was given at once. A mark has no events.
type Batch struct {
	Member   string
	Revision store.Revision
	Events   []Seen
}

// Seen is one event as a watcher saw it.
type Seen struct {
	Revision store.Revision
	Key      string
	Value    string
	Deleted  bool
	Prev     string
	HasPrev  bool
}

// Stream is one watch from its start to its end. A client that resumes begins another.
type Stream struct {
	Client int
	Prefix string
	// From is the first revision that was asked for; never zero here: a client that starts with a list asks for what follows it.
	From    store.Revision
	Resumes bool // From follows what the stream before had delivered; else it follows a list
	Batches []Batch
	// Compacted is the highest revision that any compaction asked for before the stream ended: changes up to it may come without
	// what stood before.
	Compacted store.Revision
}

// CheckWatch holds the guarantees of watches over the streams, one by one:
//
//   - ordered: revisions rise, within batches and from one to the next;
//   - unique: nothing comes twice;
//   - reliable: between the start and the last batch nothing that was wanted is missing, and nothing is there that never was;
//   - atomic: a set comes in one batch;
//   - resumable: a stream begins with the first change at or after what it asked for;
//   - bookmarkable: when a mark comes, everything before it has come;
//   - previous value: where one is given, it is what stood before.
func CheckWatch(streams []Stream, changes []Change) []Violation {
	var out []Violation
	for i := range streams {
		out = append(out, checkStream(&streams[i], changes)...)
		if len(out) > maxViolations {
			break
		}
	}
	return out
}

func checkStream(s *Stream, changes []Change) []Violation {
	ordered, unique := violations{check: WatchOrdered}, violations{check: WatchUnique}
	atomic := violations{check: WatchAtomic}
	seen := map[store.Revision]Seen{}
	var last, reached store.Revision
	for _, b := range s.Batches {
		marks := len(b.Events) == 0
		for _, e := range b.Events {
			if _, again := seen[e.Revision]; again {
				unique.add("client %d got revision %d of %s twice in one watch from %d", s.Client, e.Revision, e.Key, s.From)
			} else if e.Revision <= last {
				ordered.add("client %d got revision %d after %d", s.Client, e.Revision, last)
			}
			seen[e.Revision] = e
			last = max(last, e.Revision)
		}
		if !marks {
			if n := find(changes, b.Events[len(b.Events)-1].Revision); n < len(changes) && changes[n].Set != b.Revision {
				atomic.add("client %d got a batch that ends at revision %d, its set ends at %d", s.Client, b.Revision, changes[n].Set)
			}
		}
		if b.Revision < reached {
			ordered.add("client %d got a batch of revision %d after one of %d", s.Client, b.Revision, reached)
		}
		reached = max(reached, b.Revision)
	}
	out := append(append(ordered.list, unique.list...), atomic.list...)
	return append(out, checkContent(s, changes, seen, reached)...)
}

// checkContent compares what came with what the ledger has between the start and what the stream reached.
func checkContent(s *Stream, changes []Change, seen map[store.Revision]Seen, reached store.Revision) []Violation {
	reliable, resumable := violations{check: WatchReliable}, violations{check: WatchResumable}
	bookmark, prev := violations{check: WatchBookmark}, violations{check: WatchPrevKV}
	byMark := len(s.Batches) > 0 && len(s.Batches[len(s.Batches)-1].Events) == 0
	first, wanted := true, 0
	for n := find(changes, s.From); n < len(changes) && changes[n].Revision <= reached; n++ {
		c := changes[n]
		if !strings.HasPrefix(c.Key, s.Prefix) {
			continue
		}
		wanted++
		e, ok := seen[c.Revision]
		switch {
		case !ok && first && s.Resumes:
			resumable.add("client %d resumed from %d on and never got revision %d of %s", s.Client, s.From, c.Revision, c.Key)
		case !ok && byMark && c.Revision > lastEvent(s):
			bookmark.add("client %d got a mark for %d and never revision %d of %s", s.Client, reached, c.Revision, c.Key)
		case !ok:
			reliable.add("client %d watched from %d to %d and never got revision %d of %s", s.Client, s.From, reached, c.Revision, c.Key)
		case e.Key != c.Key || e.Deleted != c.Deleted || e.Value != c.Value:
			reliable.add("client %d got revision %d as %+v, it was %s=%q", s.Client, c.Revision, e, c.Key, c.Value)
		case e.HasPrev && (!c.HasPrev || e.Prev != c.Prev):
			prev.add("client %d got revision %d of %s with %q before it, it was %q", s.Client, c.Revision, c.Key, e.Prev, c.Prev)
		case !e.HasPrev && c.HasPrev && c.Revision > s.Compacted:
			prev.add("client %d got revision %d of %s without what stood before, %q", s.Client, c.Revision, c.Key, c.Prev)
		}
		first = false
	}
	inside := 0
	for r := range seen {
		if n := find(changes, r); n < len(changes) && changes[n].Revision == r && r < s.From {
			inside++ // the rest of the set that From stands in
		}
	}
	if extra := len(seen) - inside - wanted; extra > 0 {
		reliable.add("client %d got %d events from %d to %d that never were", s.Client, extra, s.From, reached)
	}
	return append(append(append(reliable.list, resumable.list...), bookmark.list...), prev.list...)
}

func lastEvent(s *Stream) store.Revision {
	for i := len(s.Batches) - 1; i >= 0; i-- {
		if n := len(s.Batches[i].Events); n > 0 {
			return s.Batches[i].Events[n-1].Revision
		}
	}
	return 0
}
