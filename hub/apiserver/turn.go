package apiserver

import (
	"strconv"
	"sync"

	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/fair"
)

// takeTurn waits for seats, or takes a share of what lasts: watches and logs have their own, so that neither starves the other.
func (x *exchange) takeTurn() (leave func(), err error) {
	switch {
	case x.route.kind == routeHealth:
		return func() {}, nil
	case x.route.lasting():
		leave, err = x.s.watches.Take(x.asker().Actor())
	default:
		leave, err = x.s.cfg.Seats.Enter(x.r.Context(), x.class(), x.flow(), x.cost())
	}
	if err != nil {
		x.counted = true // by hub/fair
	}
	return leave, err
}

// class is whose seats the request takes.
func (x *exchange) class() fair.Class {
	switch {
	case x.asker().Kind == access.Member:
		return fair.Members
	case x.user.IsAdmin() && (x.route.kind == routeHub || x.route.kind == routeMembers || x.route.kind == routeMetrics || x.route.kind == routeWhy || x.route.kind == routeAudit):
		return fair.Operations
	case x.asker().Kind == access.ServiceAccount:
		return fair.Automation
	case x.asker().Kind == access.Person:
		return fair.People
	}
	return fair.Strangers
}

// asker is who sends the request, in whosever name, so that nobody gets more by impersonating many; what a member passes on counts for who
// made it.
func (x *exchange) asker() *access.Identity {
	if by := x.user.By; by != nil && by.Kind != access.Member {
		return by
	}
	return &x.user.Identity
}

// flow tells identities apart, and a person's lists from the rest: nobody's get waits behind their own lists.
func (x *exchange) flow() string {
	if x.route.verb == "list" {
		return x.asker().Actor() + " lists"
	}
	return x.asker().Actor()
}

const (
	costBytes  = 1 << 20 // of an answer that costs one seat more
	costItems  = 50      // of a transaction that cost one seat more, at itemBytes each
	itemBytes  = 1 << 10
	knownLists = 1024
	auditCost  = 8 // files are read for it
)

// cost is how many seats the request takes: by what its like came to, for lists, and by its size, for transactions.
func (x *exchange) cost() int {
	switch {
	case x.route.verb == "list":
		return 1 + x.s.lists.of(x.listKey(), x.route.ref.Kind.Plural)/costBytes
	case x.route.kind == routeAudit:
		return auditCost
	case x.route.kind == routeTransactions:
		return 1 + int(x.r.ContentLength/(costItems*itemBytes))
	}
	return 1
}

func (x *exchange) listKey() string {
	ref, q := x.route.ref, x.r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil || limit < 0 {
		limit = 0
	}
	return ref.Kind.Plural + "/" + ref.Namespace + "?" + strconv.Itoa(limit)
}

// sizes remembers how many bytes lists came to. A list that is not known is taken for as large as the largest of its kind.
type sizes struct {
	mu      sync.Mutex // guards below
	byList  map[string]int
	largest map[string]int // by plural
}

func (s *sizes) of(list, plural string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.byList[list]; ok {
		return n
	}
	return s.largest[plural]
}

func (s *sizes) note(list, plural string, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byList == nil || len(s.byList) >= knownLists {
		s.byList, s.largest = map[string]int{}, map[string]int{}
	}
	s.byList[list] = bytes
	s.largest[plural] = max(s.largest[plural], bytes)
}
