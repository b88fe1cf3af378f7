package reconcile

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func k(name string) Key { return Key{Name: name} }

func wantTake(t *testing.T, q *queue, now time.Time, name, cause string) {
	t.Helper()
	rq, ok := q.take(now)
	if name == "" {
		if ok {
			t.Errorf("got %v, want nothing due", rq)
		}
		return
	}
	if !ok || rq.Key != k(name) || rq.Cause != cause {
		t.Errorf("got %v %v, want %s by %s", rq, ok, name, cause)
	}
}

func TestKeyThatIsAddedManyTimesIsGivenOutOnceWithTheNewestCause(t *testing.T) {
	q := newQueue()
	q.add(k("a"), "9")
	q.add(k("a"), "10") // higher as a number, not as text
	q.add(k("b"), "3")
	q.add(k("a"), "2")
	wantTake(t, q, epoch, "a", "10")
	wantTake(t, q, epoch, "b", "3")
	wantTake(t, q, epoch, "", "")
}

func TestKeyInWorkIsNotGivenOutAgainBeforeItIsDone(t *testing.T) {
	q := newQueue()
	q.add(k("a"), "1")
	wantTake(t, q, epoch, "a", "1")
	q.add(k("a"), "2")
	wantTake(t, q, epoch, "", "")
	q.done(k("a"))
	wantTake(t, q, epoch, "a", "2")
	q.done(k("a"))
	wantTake(t, q, epoch, "", "")
}

func TestDelayedKeyComesWhenDueAtTheEarliestOfItsTimes(t *testing.T) {
	q := newQueue()
	q.addAt(k("a"), "1", epoch.Add(10*time.Second))
	q.addAt(k("a"), "", epoch.Add(5*time.Second))
	q.addAt(k("a"), "", epoch.Add(20*time.Second))
	q.addAt(k("b"), "2", epoch.Add(time.Second))
	if at, ok := q.next(); !ok || !at.Equal(epoch.Add(time.Second)) {
		t.Errorf("got next %v %v, want after a second", at, ok)
	}
	wantTake(t, q, epoch.Add(4*time.Second), "b", "2")
	wantTake(t, q, epoch.Add(4*time.Second), "", "")
	wantTake(t, q, epoch.Add(5*time.Second), "a", "1")
	q.done(k("a"))
	wantTake(t, q, epoch.Add(time.Hour), "", "")
}

// Random operations: each added key is given out afterwards, none is in two hands, and nothing is left behind.
func TestQueueLosesNoKeyAndKeepsNothing(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		q, now := newQueue(), epoch
		owed, working := map[Key]bool{}, map[Key]bool{}
		take := func() bool {
			rq, ok := q.take(now)
			if !ok {
				return false
			}
			if working[rq.Key] {
				t.Fatalf("seed %d: %v is given out twice", seed, rq.Key)
			}
			working[rq.Key] = true
			delete(owed, rq.Key)
			return true
		}
		for range 500 {
			key := k(fmt.Sprint(r.IntN(6)))
			switch r.IntN(4) {
			case 0:
				q.add(key, "1")
				owed[key] = true
			case 1:
				q.addAt(key, "1", now.Add(time.Duration(r.IntN(10))*time.Second))
				owed[key] = true
			case 2:
				take()
			case 3:
				for w := range working {
					delete(working, w)
					q.done(w)
					break
				}
				now = now.Add(time.Second)
			}
		}
		now = now.Add(time.Hour)
		for again := true; again; {
			for w := range working {
				delete(working, w)
				q.done(w)
			}
			again = take()
		}
		if len(owed) > 0 {
			t.Fatalf("seed %d: %v never came", seed, owed)
		}
		if n := len(q.waiting) + len(q.queued) + len(q.working) + len(q.again) + len(q.cause) + len(q.delayed) + len(q.dueOf); n != 0 {
			t.Fatalf("seed %d: %d entries are left in an empty queue: %+v", seed, n, q)
		}
	}
}
