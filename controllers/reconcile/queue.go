package reconcile

import (
	"container/heap"
	"time"

	"github.com/drover-fleet/drover/client/cache"
)

// Key names what a loop reconciles: usually an object.
type Key = cache.Key

// Request is one call of a loop.
type Request struct {
	Key Key
	// Cause is the newest revision that woke the key since its last success; empty when only time did, at start.
	Cause string
}

// Newest returns the highest of revisions; empty when there is none.
func Newest(revisions ...string) string {
	best := ""
	for _, r := range revisions {
		if cache.Newer(r, best) {
			best = r
		}
	}
	return best
}

// queue is the pure core of a loop: which keys wait, which are in work, which come later.
//
//	          add                 take                 done
//	(absent) ------> waiting -----------> working ------------> (absent)
//	   ^  later: due     ^                   | added meanwhile
//	   +-- delayed ------+<------------------+
//
// A key is in waiting at most once. A key in working is not in waiting; what wakes it meanwhile is kept in again.
type queue struct {
	waiting []Key
	queued  map[Key]bool   // in waiting
	working map[Key]bool   // given out by take
	again   map[Key]bool   // woken while working
	cause   map[Key]string // newest wake of keys that are queued, delayed or again
	delayed delays
	dueOf   map[Key]*delay // the one entry of a key in delayed
}

func newQueue() *queue {
	return &queue{
		queued: map[Key]bool{}, working: map[Key]bool{}, again: map[Key]bool{},
		cause: map[Key]string{}, dueOf: map[Key]*delay{},
	}
}

// add wakes a key now.
func (q *queue) add(key Key, cause string) {
	q.note(key, cause)
	if q.working[key] {
		q.again[key] = true
		return
	}
	q.push(key)
}

// addAt wakes a key at a time; of several times the earliest counts.
func (q *queue) addAt(key Key, cause string, at time.Time) {
	q.note(key, cause)
	if d := q.dueOf[key]; d != nil {
		if at.Before(d.at) {
			d.at = at
			heap.Fix(&q.delayed, d.place)
		}
		return
	}
	d := &delay{key: key, at: at}
	q.dueOf[key] = d
	heap.Push(&q.delayed, d)
}

func (q *queue) note(key Key, cause string) { q.cause[key] = Newest(q.cause[key], cause) }

func (q *queue) push(key Key) {
	if !q.queued[key] {
		q.queued[key] = true
		q.waiting = append(q.waiting, key)
	}
}

// take gives out the next key; false when none is due.
func (q *queue) take(now time.Time) (Request, bool) {
	for len(q.delayed) > 0 && !q.delayed[0].at.After(now) {
		d := heap.Pop(&q.delayed).(*delay)
		delete(q.dueOf, d.key)
		q.add(d.key, "")
	}
	if len(q.waiting) == 0 {
		return Request{}, false
	}
	key := q.waiting[0]
	q.waiting = q.waiting[1:]
	delete(q.queued, key)
	q.working[key] = true
	rq := Request{Key: key, Cause: q.cause[key]}
	if q.dueOf[key] == nil {
		delete(q.cause, key)
	}
	return rq, true
}

// done takes a key back. It waits again at once when something woke it meanwhile.
func (q *queue) done(key Key) {
	delete(q.working, key)
	if q.again[key] {
		delete(q.again, key)
		q.push(key)
	}
}

// next is when the next delayed key is due; false when there is none.
func (q *queue) next() (time.Time, bool) {
	if len(q.delayed) == 0 {
		return time.Time{}, false
	}
	return q.delayed[0].at, true
}

// delay is a key that comes later. place is its index in the heap.
type delay struct {
	key   Key
	at    time.Time
	place int
}

// delays is a heap by time.
type delays []*delay

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push is heap's.
func (d *delays) Push(x any) {
	e := x.(*delay)
	e.place = len(*d)
	*d = append(*d, e)
}

// Pop is heap's.
func (d *delays) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = nil
	*d = (*d)[:len(*d)-1]
	return last
}
