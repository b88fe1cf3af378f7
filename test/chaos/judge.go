package chaos

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
	"github.com/drover-fleet/drover/test/history"
	"github.com/drover-fleet/drover/test/lab"
)

const contSignal = syscall.SIGCONT

// Guarantees besides those of test/history.
const (
	NoTrace   = "a refused write leaves no trace"
	AtMost    = "a write is applied at most once"
	NoneGone  = "an acknowledged write is in the ledger"
	NoGap     = "no revision is missing from a watch of everything"
	SoundDisk = "what lies on each disk is sound"
	Serves    = "after the faults every member serves"
)

// judge checks the history, and then the members' contents.
func (w *world) judge(ctx context.Context) {
	v, r, keeper := w.verdict, w.r, w.watching[0]
	changes := keeper.ledger(r.ops)
	v.Done, v.Refused, v.Unknown, v.Failed = r.tally()
	v.Revisions, v.Streams, v.Sets, v.LongestWithoutWrite = len(changes), len(r.streams), len(r.sets), r.longest
	for _, m := range w.h.members {
		v.Snapshots += m.disk.snapshots()
	}
	v.Compactions = r.compactions
	for _, c := range changes {
		if c.Deleted && strings.HasPrefix(c.Key, turnPrefix) {
			v.Files++
		}
	}
	w.compareMembers(ctx)
	w.openDisks(ctx)
	v.check(history.CheckLinearizable(r.ops, changes, orderTime))
	v.check(history.CheckWatch(r.streams, changes))
	v.check(history.CheckSets(r.sets))
	v.check(history.CheckMonotonic(r.sightings))
	v.check(noGap(changes))
	v.check(atMostOnce(changes))
	v.check(acknowledged(r.ops, changes))
	v.check(noTrace(r.ops, changes))
	v.check(r.broken)
}

// names lists every guarantee that is judged, so that the table shows what was looked at.
func names() []string {
	return []string{
		history.Linearizable, history.EqualMembers, history.Monotonic, history.AtomicSets, history.WatchOrdered, history.WatchUnique,
		history.WatchReliable, history.WatchAtomic, history.WatchResumable, history.WatchBookmark, history.WatchPrevKV,
		NoneGone, AtMost, NoTrace, NoGap, SoundDisk, Serves, history.NoErrors,
	}
}

// check files breaches under their guarantee.
func (v *Verdict) check(broken []history.Violation) {
	if v.Checks == nil {
		for _, n := range names() {
			v.Checks = append(v.Checks, Check{Name: n})
		}
	}
	for _, b := range broken {
		at := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == b.Check })
		if at < 0 {
			v.Checks = append(v.Checks, Check{Name: b.Check})
			at = len(v.Checks) - 1
		}
		v.Checks[at].Broken = append(v.Checks[at].Broken, b)
	}
}

// keeps makes the watcher the one that keeps the ledger.
func (w *watching) keeps() {
	w.seenAt, w.base, w.marks = map[store.Revision]int{}, map[string]string{}, true
}

// ledger is what the keeper saw, in order, with what stood before and whose each deletion was.
func (w *watching) ledger(ops []history.Op) []history.Change {
	slices.SortFunc(w.changes, func(a, b history.Change) int { return compare(a.Revision, b.Revision) })
	current := w.base
	lastOf := map[string]store.Revision{}
	type version struct {
		key string
		rev store.Revision
	}
	after := map[version]*history.Change{} // the change that follows a version of a key
	for i := range w.changes {
		c := &w.changes[i]
		c.Prev, c.HasPrev = current[c.Key]
		after[version{c.Key, lastOf[c.Key]}] = c
		lastOf[c.Key] = c.Revision
		if c.Deleted {
			delete(current, c.Key)
			delete(lastOf, c.Key)
			c.Request, c.Value = "", ""
		} else {
			current[c.Key] = c.Value
		}
	}
	for _, done := range []bool{true, false} { // who knows that it deleted comes first
		for _, o := range ops {
			if o.Kind != history.Delete || (o.Outcome == history.Done) != done || o.Outcome == history.Refused || o.Outcome == history.Failed {
				continue
			}
			if c := after[version{o.Key, o.If}]; c != nil && c.Deleted && c.Request == "" && (!done || c.Revision == o.Revision) && c.At >= o.Call {
				c.Request = o.Request
			}
		}
	}
	return w.changes
}

func compare(a, b store.Revision) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// noGap holds that each revision follows the one before: a watch of everything from one moment on misses none.
func noGap(changes []history.Change) (out []history.Violation) {
	for i := 1; i < len(changes); i++ {
		if changes[i].Revision != changes[i-1].Revision+1 {
			out = append(out, history.Violation{Check: NoGap, What: fmt.Sprintf("after revision %d (%s) came %d (%s)",
				changes[i-1].Revision, changes[i-1].Key, changes[i].Revision, changes[i].Key)})
		}
	}
	return few(out)
}

// few shows what is wrong; thousands hide it.
func few(all []history.Violation) []history.Violation { return all[:min(len(all), 5)] }

func atMostOnce(changes []history.Change) (out []history.Violation) {
	seen := map[string]store.Revision{}
	for _, c := range changes {
		if !ours(c.Key) || c.Deleted {
			continue
		}
		k := c.Key + "\x00" + c.Value
		if r, again := seen[k]; again {
			out = append(out, history.Violation{Check: AtMost, What: fmt.Sprintf("%s=%q was written at revision %d and again at %d", c.Key, c.Value, r, c.Revision)})
		}
		seen[k] = c.Revision
	}
	return few(out)
}

// ours tells keys that clients work on.
func ours(key string) bool { return strings.HasPrefix(key, "k/") || strings.HasPrefix(key, "set/") }

func acknowledged(ops []history.Op, changes []history.Change) (out []history.Violation) {
	at := map[store.Revision]*history.Change{}
	for i := range changes {
		at[changes[i].Revision] = &changes[i]
	}
	for _, o := range ops {
		if o.Outcome != history.Done || o.Kind == history.Read || o.Revision == 0 || len(changes) == 0 || o.Revision < changes[0].Revision {
			continue
		}
		c := at[o.Revision]
		if c == nil || c.Key != o.Key || c.Deleted != (o.Kind == history.Delete) || !c.Deleted && c.Value != o.Value {
			out = append(out, history.Violation{Check: NoneGone, What: fmt.Sprintf("client %d was told that %s=%q is revision %d; the ledger has %+v there", o.Client, o.Key, o.Value, o.Revision, c)})
		}
	}
	return few(out)
}

func noTrace(ops []history.Op, changes []history.Change) (out []history.Violation) {
	written := map[string]store.Revision{}
	for _, c := range changes {
		written[c.Key+"\x00"+c.Request] = c.Revision
	}
	for _, o := range ops {
		if o.Kind == history.Read || o.Outcome != history.Failed && o.Outcome != history.Refused {
			continue
		}
		if r, ok := written[o.Key+"\x00"+o.Request]; ok {
			out = append(out, history.Violation{Check: NoTrace, What: fmt.Sprintf("client %d was told that %s=%q was not written; it is revision %d", o.Client, o.Key, o.Value, r)})
		}
	}
	return few(out)
}

// serves tells whether a member answers a read that a majority confirms.
func (h *house) serves(ctx context.Context, m *member) error {
	l := links{}
	defer l.close()
	_, err := l.revision(ctx, h, slices.Index(h.members, m), false)
	return err
}

const hashesPath = "/drover/v1/internal/hashes"

// compareMembers holds that members have equal hashes wherever two of them have one of the same index, and that they have some.
func (w *world) compareMembers(ctx context.Context) {
	config := w.h.tls.Clone()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
	defer web.CloseIdleConnections()
	within, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	common := 0
	err := lab.Until(within, "members have hashes of one index", func() error {
		have := map[uint64]map[[32]byte]string{}
		common = 0
		for _, m := range w.h.members {
			hashes, err := hashesOf(within, web, m)
			if err != nil {
				return err
			}
			for _, h := range hashes {
				if have[h.Index] == nil {
					have[h.Index] = map[[32]byte]string{}
				}
				have[h.Index][h.Hash] += m.name + " "
			}
		}
		for index, by := range have {
			names := ""
			for _, n := range by {
				names += n
			}
			if len(by) > 1 {
				w.r.breach(history.EqualMembers, "contents at entry %d differ: %v", index, by)
				return nil
			}
			if strings.Count(names, " ") == members {
				common++
			}
		}
		if common == 0 {
			w.nudge(within)
			return errors.New("none in common")
		}
		return nil
	})
	if err != nil {
		w.r.breach(history.EqualMembers, "%v", err)
	}
}

// nudge writes a little, so that members pass an index at which hashes are kept.
func (w *world) nudge(ctx context.Context) {
	l := links{}
	defer l.close()
	for n := range 40 {
		w.c.bulk(ctx, l, 0, &store.Command{Ops: []store.Op{{Type: store.OpPut, Key: "~nudge", Value: fmt.Append(nil, w.r.now(), n)}}})
	}
}

func hashesOf(ctx context.Context, web *http.Client, m *member) (out []mvcc.IndexHash, err error) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.api+hashesPath, nil)
	if err != nil {
		return nil, err
	}
	rs, err := web.Do(rq)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rs.Body.Close() }()
	if rs.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", m.name, rs.Status)
	}
	return out, json.NewDecoder(io.LimitReader(rs.Body, 1<<20)).Decode(&out)
}

// openDisks ends the members in order and looks at what each has on its disk.
func (w *world) openDisks(ctx context.Context) {
	for _, m := range w.h.members {
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		if err := m.stop(within); err != nil {
			w.r.breach(history.NoErrors, "%s does not end: %v", m.name, err)
		}
		cancel()
		s, err := mvcc.Open(filepath.Join(m.backing, "state"), mvcc.Options{})
		if err == nil {
			err = errors.Join(s.Verify(ctx), s.Close())
		}
		if err != nil {
			w.r.breach(SoundDisk, "%s: %v", m.name, err)
		}
	}
}

// keepHistory writes everything that was recorded to a file.
func (w *world) keepHistory(dir string) (name string, err error) {
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("history-%d.json.gz", w.cfg.Seed)))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	e := json.NewEncoder(z)
	for _, part := range []any{w.verdict, w.r.ops, w.r.sets, w.r.sightings, w.watching[0].changes, w.r.streams} {
		if err := e.Encode(part); err != nil {
			return "", err
		}
	}
	return f.Name(), z.Close()
}

// Print shows the verdict to people.
func (v *Verdict) Print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nseed\t%d\n", v.Seed)
	for _, k := range Kinds() {
		fmt.Fprintf(t, "fault: %s\t%d\n", k, v.Faults[k])
	}
	fmt.Fprintf(t, "snapshots given to members\t%d\n", v.Snapshots)
	fmt.Fprintf(t, "compactions of history, of files in use\t%d, %d\n", v.Compactions, v.Files)
	fmt.Fprintf(t, "operations done / refused / unknown / not sent\t%d / %d / %d / %d\n", v.Done, v.Refused, v.Unknown, v.Failed)
	fmt.Fprintf(t, "revisions, watches, sets read\t%d, %d, %d\n", v.Revisions, v.Streams, v.Sets)
	fmt.Fprintf(t, "longest time without an acknowledged write\t%v\n", v.LongestWithoutWrite.Round(time.Millisecond))
	fmt.Fprintf(t, "after the last fault every member served within\t%v\n", v.Recovered.Round(time.Millisecond))
	for _, c := range v.Checks {
		verdict := "held"
		if len(c.Broken) > 0 {
			verdict = "BROKEN"
		}
		fmt.Fprintf(t, "%s\t%s\n", c.Name, verdict)
	}
	err := t.Flush()
	for _, c := range v.Checks {
		for _, b := range c.Broken {
			fmt.Fprintf(out, "%v\n", b)
		}
	}
	if v.History != "" {
		fmt.Fprintf(out, "the history is in %s\n", v.History)
	}
	return err
}
