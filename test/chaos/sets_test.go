package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/test/lab"
)

// atomicSets is how many sets are written while leaders are killed; make sets SETS=n sets it.
var atomicSets = flag.Int("sets", 100, "sets of 20 objects written while leaders are killed")

const (
	setSize    = 20
	setWriters = 4
	slotsEach  = 10 // slots of a writer; each holds one set, which is made, changed and deleted
	killEvery  = 10 // acknowledged sets between two kills
)

// setJudge is what is known of all sets while they are written, read and watched.
type setJudge struct {
	*testing.T
	h    *house
	seed uint64
	each []*remote.Client // by member: it asks that one only
	all  *remote.Client   // asks whoever answers

	acked, tried, reads, resumed, midway, kills atomic.Int64

	mu     sync.Mutex
	broken []string
	done   map[string]bool  // sets that were acknowledged: SLOT/NUMBER, or SLOT/gone/NUMBER
	inside []store.Revision // that lie within a set
}

func (j *setJudge) breach(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = append(j.broken, fmt.Sprintf(format, args...))
}

// TestSetsAreWholeOrAbsentWhileLeadersAreKilled: writers make, change and delete sets of 20 objects, each in one transaction, while whoever
// leads is killed by SIGKILL again and again. Every list on every member, at the newest revision and at revisions inside sets, shows of each
// set all or nothing; every watch, broken off in the middle of a set and resumed on another member, is given each set whole and once.
func TestSetsAreWholeOrAbsentWhileLeadersAreKilled(t *testing.T) {
	h, err := newHouse(shortDir(t), binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*atomicSets)*time.Second)
	defer cancel()
	if err := h.found(ctx); err != nil {
		t.Fatal(err)
	}
	j := &setJudge{T: t, h: h, seed: testSeed(t), done: map[string]bool{}}
	if err := j.connect(); err != nil {
		t.Fatal(err)
	}
	defer j.disconnect()
	began := time.Now()
	start, err := j.all.List(ctx, api.KindConfigMap, client.ListOptions{Namespace: api.DefaultNS})
	if err != nil {
		t.Fatal(err)
	}
	var work, look sync.WaitGroup
	watches := make([]*setWatch, len(h.members))
	end := make(chan string, len(watches)) // the revision at which a watch is complete
	for i := range h.members {
		w := &setWatch{j: j, rng: rand.New(rand.NewPCG(j.seed, uint64(i))), at: start.ResourceVersion}
		watches[i] = w
		look.Go(func() { w.run(ctx, end) })
	}
	reading, stopReading := context.WithCancel(ctx)
	for i := range h.members {
		work.Go(func() { j.read(reading, i) })
	}
	var writers sync.WaitGroup
	for i := range setWriters {
		writers.Go(func() { j.write(ctx, i) })
	}
	killing, stopKilling := context.WithCancel(ctx)
	work.Go(func() { j.killLeaders(killing) })
	writers.Wait()
	stopKilling()
	stopReading()
	work.Wait()
	for _, m := range h.members {
		if err := errors.Join(m.start(), lab.Until(ctx, m.name+" serves", func() error { return h.serves(ctx, m) })); err != nil {
			t.Fatal(err)
		}
	}
	last, err := j.all.List(ctx, api.KindConfigMap, client.ListOptions{Namespace: api.DefaultNS})
	if err != nil {
		t.Fatal(err)
	}
	j.whole("the last list", last.Items)
	for range watches {
		end <- last.ResourceVersion
	}
	look.Wait()
	j.judge(ctx, watches)
	t.Logf("%d of %d sets acknowledged, %d leaders killed, %d reads, %d watches resumed (%d in the middle of a set), %d breaches, in %s",
		j.acked.Load(), j.tried.Load(), j.kills.Load(), j.reads.Load(), j.resumed.Load(), j.midway.Load(), len(j.broken), time.Since(began).Round(time.Second))
}

func (j *setJudge) connect() error {
	config, err := remote.LoadKubeconfig(filepath.Join(j.h.members[0].backing, "admin.kubeconfig"), "")
	if err != nil {
		return err
	}
	config.Servers = nil
	for _, m := range j.h.members {
		one := *config
		one.Servers = []string{"https://" + m.api}
		c, err := remote.New(&one, remote.Options{Patience: time.Second, Attempt: 5 * time.Second})
		if err != nil {
			return err
		}
		j.each = append(j.each, c)
		config.Servers = append(config.Servers, "https://"+m.api)
	}
	j.all, err = remote.New(config, remote.Options{Patience: 20 * time.Second})
	return err
}

func (j *setJudge) disconnect() {
	for _, c := range append(j.each, j.all) {
		c.Close()
	}
}

func setObject(slot, i, n int) *api.ConfigMap {
	return &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Name: fmt.Sprintf("set-%d-%d", slot, i), Namespace: api.DefaultNS},
		Data:     map[string]string{"n": strconv.Itoa(n)},
	}
}

// write makes, changes and deletes the sets of its slots in turn until enough were tried.
func (j *setJudge) write(ctx context.Context, writer int) {
	holds := map[int]int{} // by slot, the write that it holds for certain; 0 = not known
	for n := 1; ctx.Err() == nil; n++ {
		if j.tried.Add(1) > int64(*atomicSets) {
			j.tried.Add(-1)
			return
		}
		slot := writer*slotsEach + n%slotsEach
		verb, name := client.TxApply, fmt.Sprintf("%d/%d", slot, n)
		if (n/slotsEach)%3 == 2 {
			verb, name = client.TxDelete, fmt.Sprintf("%d/gone/%d", slot, holds[slot])
		}
		tx := client.Transaction{FieldManager: "sets", Force: true}
		for i := range setSize {
			tx.Items = append(tx.Items, client.TxItem{Verb: verb, Object: setObject(slot, i, n)})
		}
		_, err := j.all.Transact(ctx, tx)
		was := holds[slot]
		if holds[slot] = n; err != nil || verb == client.TxDelete {
			holds[slot] = 0
		}
		if err != nil {
			continue // it is there or not, and whole either way
		}
		j.acked.Add(1)
		if verb == client.TxDelete && was == 0 {
			continue
		}
		j.mu.Lock()
		j.done[name] = true
		j.mu.Unlock()
	}
}

// killLeaders kills whoever leads, each time after some sets were acknowledged, and starts it again.
func (j *setJudge) killLeaders(ctx context.Context) {
	rng := rand.New(rand.NewPCG(j.seed, 99))
	next := int64(killEvery / 2)
	for ctx.Err() == nil {
		if j.acked.Load() < next {
			wait(ctx, time.Millisecond)
			continue
		}
		wait(ctx, time.Duration(rng.Int64N(int64(10*time.Millisecond))))
		m := j.leader(ctx)
		if m == nil {
			continue
		}
		if err := m.kill(context.WithoutCancel(ctx)); err != nil {
			j.breach("kill %s: %v", m.name, err)
			return
		}
		j.kills.Add(1)
		wait(ctx, time.Duration(rng.Int64N(int64(time.Second))))
		if err := m.start(); err != nil {
			j.breach("start %s: %v", m.name, err)
			return
		}
		if err := lab.Until(ctx, m.name+" serves", func() error { return j.h.serves(ctx, m) }); err != nil && ctx.Err() == nil {
			j.breach("%v", err)
			return
		}
		next = j.acked.Load() + killEvery
	}
}

func (j *setJudge) leader(ctx context.Context) *member {
	s, err := j.all.HubStatus(ctx)
	if err != nil {
		return nil
	}
	for _, m := range j.h.members {
		if m.name == s.Leader {
			return m
		}
	}
	return nil
}

// whole demands of every set that all or none of it is there, of one write.
func (j *setJudge) whole(where string, objects []api.Object) {
	count, number := map[string]int{}, map[string]string{}
	for _, o := range objects {
		slot := slotOf(o.Meta().Name)
		n := o.(*api.ConfigMap).Data["n"]
		if was, ok := number[slot]; ok && was != n {
			j.breach("%s: set %s is of write %s and of write %s", where, slot, was, n)
		}
		number[slot] = n
		count[slot]++
	}
	for slot, n := range count {
		if n != setSize {
			j.breach("%s: %d of %d objects of set %s", where, n, setSize, slot)
		}
	}
}

func slotOf(name string) string {
	slot, _, _ := strings.Cut(strings.TrimPrefix(name, "set-"), "-")
	return slot
}

// read looks at everything on one member, again and again: newest, what the member has, and as of a revision inside a set; and at one object, whose
// revision must show its whole set.
func (j *setJudge) read(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(j.seed, uint64(200+i)))
	l := links{}
	defer l.close()
	name := j.h.members[i].name
	for ; ctx.Err() == nil; wait(ctx, time.Duration(rng.Int64N(int64(20*time.Millisecond)))) {
		switch rng.IntN(4) {
		case 0, 1:
			o := client.ListOptions{Namespace: api.DefaultNS, ResourceVersion: []string{"", "0"}[rng.IntN(2)]}
			list, err := j.each[i].List(ctx, api.KindConfigMap, o)
			if err == nil {
				j.reads.Add(1)
				j.whole(fmt.Sprintf("list on %s at %s", name, list.ResourceVersion), list.Items)
			}
		case 2:
			if rev := j.someInside(rng); rev != 0 {
				j.readAt(ctx, l, i, rev, "")
			}
		case 3:
			r := api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS, Name: fmt.Sprintf("set-%d-%d", rng.IntN(setWriters*slotsEach), rng.IntN(setSize))}
			o, err := j.each[i].Get(ctx, r, client.GetOptions{Stale: rng.IntN(2) == 0})
			if err != nil {
				continue
			}
			rev, err := store.ParseRevision(o.Meta().ResourceVersion)
			if err == nil {
				j.readAt(ctx, l, i, rev, slotOf(r.Name)+"/"+o.(*api.ConfigMap).Data["n"])
			}
		}
	}
}

func (j *setJudge) someInside(rng *rand.Rand) store.Revision {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.inside) == 0 {
		return 0
	}
	return j.inside[len(j.inside)-1-rng.IntN(min(len(j.inside), 200))]
}

// readAt reads a member's store as of a revision. With a set given (SLOT/NUMBER) that one must be there.
func (j *setJudge) readAt(ctx context.Context, l links, i int, rev store.Revision, want string) {
	dial, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	link, err := l.to(dial, j.h, i)
	if err != nil {
		return
	}
	prefix := api.KindConfigMap.Plural + "/" + api.DefaultNS + "/"
	res, err := link.Range(dial, store.RangeRequest{Start: prefix, End: store.PrefixEnd(prefix), Revision: rev}, true)
	if err != nil {
		l.drop(i)
		return
	}
	j.reads.Add(1)
	where := fmt.Sprintf("store of %s at %s", j.h.members[i].name, rev)
	objects := make([]api.Object, len(res.KVs))
	found := want == ""
	for n := range res.KVs {
		o := new(api.ConfigMap)
		if err := json.Unmarshal(res.KVs[n].Value, o); err != nil {
			j.breach("%s: %v", where, err)
			return
		}
		found = found || slotOf(o.Metadata.Name)+"/"+o.Data["n"] == want
		objects[n] = o
	}
	j.whole(where, objects)
	if !found {
		j.breach("%s: an object was read at that revision, but set %s is not there", where, want)
	}
}

// setWatch is one client's watch of everything. It breaks off after a few events, most often in the middle of a set, and resumes elsewhere.
type setWatch struct {
	j      *setJudge
	rng    *rand.Rand
	at     string // the last revision seen
	events []setEvent
}

type setEvent struct {
	rev     store.Revision
	slot, n string
	gone    bool
}

func (w *setWatch) run(ctx context.Context, end <-chan string) {
	until := ""
	for ctx.Err() == nil {
		if until == "" {
			select {
			case until = <-end:
			default:
			}
		}
		if until != "" && compareRevisions(w.at, until) >= 0 {
			return
		}
		w.once(ctx, w.rng.IntN(len(w.j.each)), until)
		w.j.resumed.Add(1)
		if n := len(w.events); n > 0 && n%setSize != 0 {
			w.j.midway.Add(1)
		}
	}
}

func compareRevisions(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (w *setWatch) once(ctx context.Context, i int, until string) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	in, err := w.j.each[i].Watch(ctx, api.KindConfigMap, client.WatchOptions{Namespace: api.DefaultNS, ResourceVersion: w.at, Bookmarks: true})
	if err != nil {
		w.judgeEnd(err)
		wait(ctx, 20*time.Millisecond)
		return
	}
	defer in.Close()
	for left := 1 + w.rng.IntN(2*setSize); left > 0; {
		ev, err := in.Next(ctx)
		if err != nil {
			w.judgeEnd(err)
			return
		}
		if w.at = ev.Object.Meta().ResourceVersion; ev.Type == client.Bookmark {
			if until != "" && compareRevisions(w.at, until) >= 0 {
				return
			}
			continue
		}
		w.take(ev)
		left--
	}
}

func (w *setWatch) judgeEnd(err error) {
	if fault.Is(err, fault.Expired, fault.OtherEpoch, fault.BadRequest) {
		w.j.breach("watch from %s: %v", w.at, err)
	}
}

func (w *setWatch) take(ev client.Event) {
	o := ev.Object.(*api.ConfigMap)
	rev, err := store.ParseRevision(o.Metadata.ResourceVersion)
	if err != nil {
		w.j.breach("event: %v", err)
		return
	}
	w.events = append(w.events, setEvent{rev: rev, slot: slotOf(o.Metadata.Name), n: o.Data["n"], gone: ev.Type == client.Deleted})
	w.j.mu.Lock()
	w.j.inside = append(w.j.inside, rev)
	w.j.mu.Unlock()
}

// judge looks at what the watches were given once everything is quiet.
func (j *setJudge) judge(ctx context.Context, watches []*setWatch) {
	for i, w := range watches {
		seen := w.sets(i)
		for name := range j.done {
			if seen[name] != 1 {
				j.breach("watch %d: acknowledged set %s came %d times, want once", i, name, seen[name])
			}
		}
		if len(w.events) != len(watches[0].events) {
			j.breach("watch %d was given %d events and watch 0 %d", i, len(w.events), len(watches[0].events))
		}
	}
	// Once more, at every revision that a watch named, on every member: nothing of the past was cut.
	for i := range j.h.members {
		l := links{}
		for n := 0; n < len(watches[0].events); n += 7 {
			j.readAt(ctx, l, i, watches[0].events[n].rev, "")
		}
		l.close()
	}
	for i, b := range j.broken {
		if i == 20 {
			j.Errorf("and %d more", len(j.broken)-i)
			break
		}
		j.Error(b)
	}
	if j.acked.Load() < int64(*atomicSets)/2 || j.kills.Load() < max(1, int64(*atomicSets)/100) || j.midway.Load() < 10 || j.reads.Load() < 50 {
		j.Errorf("got %d sets acknowledged, %d kills, %d watches resumed in the middle and %d reads: too little to show anything",
			j.acked.Load(), j.kills.Load(), j.midway.Load(), j.reads.Load())
	}
}

// sets cuts the events into sets and counts them by name: each is of consecutive revisions, of one slot, one write and one sort.
func (w *setWatch) sets(id int) map[string]int {
	seen := map[string]int{}
	last := store.Revision(0)
	for n := 0; n < len(w.events); n += setSize {
		if n+setSize > len(w.events) {
			w.j.breach("watch %d ends with %d of %d events of a set", id, len(w.events)-n, setSize)
			break
		}
		first := w.events[n]
		if first.rev <= last {
			w.j.breach("watch %d: revision %s after %s", id, first.rev, last)
		}
		for i, e := range w.events[n : n+setSize] {
			if e.rev != first.rev+store.Revision(i) || e.slot != first.slot || e.n != first.n || e.gone != first.gone {
				w.j.breach("watch %d: event %d of the set at revision %s is of set %s, write %s, gone=%t at %s", id, i, first.rev, e.slot, e.n, e.gone, e.rev)
				return seen
			}
		}
		last = w.events[n+setSize-1].rev
		name := first.slot + "/" + first.n
		if first.gone {
			name = first.slot + "/gone/" + first.n
		}
		seen[name]++
	}
	return seen
}
