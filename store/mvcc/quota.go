package mvcc

import (
	"encoding/binary"
	"strings"

	"github.com/drover-fleet/drover/store"
)

// class is what the bytes of a stored pair count to. The table of writers counts to none: its length is bounded.
type class int

const (
	classData class = iota
	classEvents
	classJournal
	classes
)

// classOf tells the class of a pair; ok is false for pairs that are not counted.
func (s *state) classOf(b bucket, value []byte) (c class, ok bool) {
	switch b {
	case bucketRev:
		return s.classOfKey(recordKey(value)), true
	case bucketJournal, bucketHead, bucketRequest, bucketCause:
		return classJournal, true
	}
	return 0, false
}

func (s *state) classOfKey(key string) class {
	if p := s.limits.EventPrefix; p != "" && strings.HasPrefix(key, p) {
		return classEvents
	}
	return classData
}

func (s *state) quota(c class) (q store.Quota, what string) {
	if c == classEvents {
		return s.limits.Events, "events"
	}
	return s.limits.Data, "contents"
}

// watchMarks raises the alarm of a class at its high mark and takes it back at its low mark.
func (s *state) watchMarks() {
	for _, c := range []class{classData, classEvents} {
		switch q, _ := s.quota(c); {
		case q.Max == 0 || s.used[c] <= q.Low:
			s.full[c] = false
		case s.used[c] >= q.High:
			s.full[c] = true
		}
	}
}

// refuse judges changes by the quotas. Whatever only deletes is never refused; nor, up to Max, is what replaces values by ones that
// are hardly larger, since an object is marked before it goes and history is compacted.
func (t *transaction) refuse(changes []change) error {
	var added, growth [classes]int64
	for i := range changes {
		ch := &changes[i]
		c := t.classOfKey(ch.kv.Key)
		if ch.prev != nil {
			growth[c] -= pairBytes(ch.prev)
		}
		if ch.op.Type == store.OpDelete {
			continue
		}
		added[c] += pairBytes(&ch.kv)
		if t.needed(ch.kv.Key) {
			continue
		}
		growth[c] += pairBytes(&ch.kv)
		if ch.prev != nil {
			growth[c] -= store.QuotaSlack
		}
	}
	for _, c := range []class{classData, classEvents} {
		q, what := t.quota(c)
		if q.Max == 0 || added[c] == 0 {
			continue
		}
		if t.full[c] && growth[c] > 0 || t.used[c]+uint64(added[c]) > q.Max { //nolint:gosec // not negative
			return &store.QuotaError{What: what, Used: t.used[c], Max: q.Max, Low: q.Low}
		}
	}
	return nil
}

// needed tells keys that are refused at Max only.
func (s *state) needed(key string) bool {
	for _, p := range s.limits.Needed {
		if p != "" && strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// pairBytes is about what a version takes.
func pairBytes(kv *store.KV) int64 { return int64(len(kv.Key) + len(kv.Value) + 32) }

// setLimits takes new limits over. Another event prefix makes other classes, so everything is counted anew.
func (t *transaction) setLimits(l store.Limits) error {
	recount := l.EventPrefix != t.limits.EventPrefix
	t.limits = l
	if !recount {
		return nil
	}
	t.used[classData], t.used[classEvents] = 0, 0
	return t.view(bucketRev).forEach(func(k, v []byte) error {
		c, _ := t.classOf(bucketRev, v)
		t.used[c] += uint64(len(k) + len(v))
		return nil
	})
}

// Usage is what the contents take as of the newest state.
func (s *Store) Usage() store.Usage {
	now := s.state()
	return store.Usage{
		Data: now.used[classData], Events: now.used[classEvents], Journal: now.used[classJournal],
		DataFull: now.full[classData], EventsFull: now.full[classEvents], Limits: now.limits,
	}
}

// encodeUsage has a fixed width.
func (s *state) encodeUsage() []byte {
	var b []byte
	for _, n := range s.used {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, f := range s.full {
		if f {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

func (s *state) decodeUsage(b []byte) (ok bool) {
	if len(b) != int(classes)*9 {
		return false
	}
	for c := range classes {
		s.used[c] = binary.BigEndian.Uint64(b[8*c:])
		s.full[c] = b[int(classes)*8+int(c)] == 1
	}
	return true
}

func encodeLimits(l store.Limits) []byte {
	var b []byte
	for _, q := range []store.Quota{l.Data, l.Events} {
		b = binary.AppendUvarint(b, q.Max)
		b = binary.AppendUvarint(b, q.High)
		b = binary.AppendUvarint(b, q.Low)
	}
	for _, p := range append([]string{l.EventPrefix}, l.Needed[:]...) {
		b = appendString(b, p)
	}
	return b
}

func (s *state) decodeLimits(b []byte) (ok bool) {
	p := parser{b: b}
	for _, q := range []*store.Quota{&s.limits.Data, &s.limits.Events} {
		q.Max, q.High, q.Low = p.uvarint(), p.uvarint(), p.uvarint()
	}
	for _, prefix := range []*string{&s.limits.EventPrefix, &s.limits.Needed[0], &s.limits.Needed[1]} {
		*prefix = string(p.bytes())
	}
	return !p.bad
}

// recordKey reads the key of a version without the rest.
func recordKey(b []byte) string {
	p := parser{b: b}
	p.byte()
	p.uvarint()
	p.uvarint()
	return string(p.bytes())
}
