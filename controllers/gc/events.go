package gc

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-fleet/drover/api"
)

const (
	maxEvents = 50                 // of one object
	maxAge    = 7 * 24 * time.Hour // of an event since it last happened
)

// eventRef is what is needed to judge one event, without its text.
type eventRef struct {
	namespace, name, uid string
	about                string // whom it tells of
	last                 time.Time
}

func refOf(e *api.Event) eventRef {
	r := eventRef{
		namespace: e.Metadata.Namespace, name: e.Metadata.Name, uid: e.Metadata.UID,
		about: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name,
		last:  e.LastTimestamp.Time,
	}
	if r.last.IsZero() {
		r.last = e.Metadata.CreationTimestamp.Time
	}
	return r
}

// surplus are the events that are too old, or too many of one object: the oldest of those.
func surplus(events []eventRef, now time.Time) []eventRef {
	slices.SortFunc(events, func(a, b eventRef) int {
		return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	kept := map[string]int{}
	var out []eventRef
	for _, e := range events {
		if kept[e.about] >= maxEvents || now.Sub(e.last) > maxAge {
			out = append(out, e)
			continue
		}
		kept[e.about]++
	}
	return out
}

func (e eventRef) object() *api.Event {
	return &api.Event{Metadata: api.ObjectMeta{Namespace: e.namespace, Name: e.name, UID: e.uid}}
}
