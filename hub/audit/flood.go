package audit

import (
	"sync"
	"time"
)

const (
	floodWindow  = 10 * time.Second
	floodRecords = 100  // refusals of one actor that are put on record in a window
	floodActors  = 1024 // told apart; the rest share one budget
)

// flood keeps refusals of one actor from pushing everything else out of the files.
type flood struct {
	mu     sync.Mutex // guards below
	actors map[string]*budget
}

type budget struct {
	began time.Time // of the window
	kept  int
	over  uint64 // not put on record
}

func newFlood() *flood { return &flood{actors: map[string]*budget{}} }

// admit tells whether a refusal is put on record, and how many were not since the actor's last that was.
func (f *flood) admit(actor string, now time.Time) (omitted uint64, keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.actors[actor]
	if b == nil && len(f.actors) >= floodActors {
		actor = ""
		b = f.actors[actor]
	}
	if b == nil {
		b = &budget{began: now}
		f.actors[actor] = b
	}
	if now.Sub(b.began) >= floodWindow {
		omitted = b.over
		*b = budget{began: now}
	}
	if b.kept >= floodRecords {
		b.over++
		return 0, false
	}
	b.kept++
	return omitted, true
}

// over takes the counts of actors whose window has ended, or of all, and forgets them.
func (f *flood) over(now time.Time, all bool) map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]uint64{}
	for actor, b := range f.actors {
		if !all && now.Sub(b.began) < floodWindow {
			continue
		}
		if b.over > 0 {
			out[actor] = b.over
		}
		delete(f.actors, actor)
	}
	return out
}
