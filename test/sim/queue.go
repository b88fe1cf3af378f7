package sim

import (
	"container/heap"
	"time"
)

// event is one thing that happens. Events at one time happen in the order in which they were put.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	n := len(old) - 1
	last := old[n]
	old[n] = event{}
	*e = old[:n]
	return last
}

// queue is the one order of everything, and the clock.
type queue struct {
	now    time.Duration
	events events
	seq    uint64
	done   uint64 // events so far
	settle func() // called after each event
}

// after has do called once the time has passed.
func (q *queue) after(d time.Duration, do func()) {
	q.seq++
	heap.Push(&q.events, event{at: q.now + max(d, 0), seq: q.seq, do: do})
}

// runUntil lets everything happen up to a time.
func (q *queue) runUntil(end time.Duration, stop func() bool) {
	for len(q.events) > 0 && q.events[0].at <= end && !stop() {
		e := heap.Pop(&q.events).(event)
		q.now = e.at
		q.done++
		e.do()
		q.settle()
	}
	if !stop() {
		q.now = max(q.now, end)
	}
}

// every calls do again and again, the first time after a fraction of the interval that frac, in [0, 1), gives.
func (q *queue) every(d time.Duration, frac float64, do func()) {
	var again func()
	again = func() {
		do()
		q.after(d, again)
	}
	q.after(time.Duration(frac*float64(d)), again)
}
