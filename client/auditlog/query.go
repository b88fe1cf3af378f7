package auditlog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// Decode reads a line.
func Decode(line []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(line, &r)
	return r, err
}

// Query selects records. A zero field selects all.
type Query struct {
	Since, Until time.Time
	Actor        string // whole, as user:alice; also of who asked in another's name
	Kind         string // of the object: kind or resource, in any case
	Namespace    string
	Name         string
	RequestID    string
	Denied       bool // only what was refused
	After        uint64
}

// Match tells whether a record is selected.
func (q *Query) Match(r *Record) bool {
	switch {
	case r.Seq <= q.After:
	case !q.Since.IsZero() && r.Time.Before(q.Since):
	case !q.Until.IsZero() && r.Time.After(q.Until):
	case q.Actor != "" && r.Actor != q.Actor && r.By != q.Actor:
	case !q.about(r):
	case q.RequestID != "" && q.RequestID != r.RequestID:
	case q.Denied && r.Decision != Deny:
	default:
		return true
	}
	return false
}

// about tells whether a record, or an item of it, is about the object that is asked for.
func (q *Query) about(r *Record) bool {
	if q.Kind == "" && q.Namespace == "" && q.Name == "" {
		return true
	}
	if r.Object != nil && q.is(r.Object) {
		return true
	}
	for i := range r.Items {
		if q.is(&r.Items[i].Object) {
			return true
		}
	}
	return false
}

func (q *Query) is(o *Object) bool {
	return (q.Kind == "" || strings.EqualFold(q.Kind, o.Kind) || strings.EqualFold(q.Kind, o.Resource)) &&
		(q.Namespace == "" || q.Namespace == o.Namespace) && (q.Name == "" || q.Name == o.Name)
}

// Found is what a query came to.
type Found struct {
	Lines [][]byte // oldest first
	More  bool     // older records match too
	Last  uint64   // number of the newest record read, matching or not
}

// Newest finds the newest records that match, at most limit of them and maxBytes together.
func Newest(ctx context.Context, dir string, q Query, limit int, maxBytes int64) (Found, error) {
	files, err := Files(dir)
	if err != nil {
		return Found{}, err
	}
	f := finder{q: q, limit: limit, room: maxBytes}
	for _, file := range files[begin(files, &q):] {
		err := Lines(file.Path, 0, func(b []byte, _ int64, whole bool) error {
			if whole { // else it is being written, or verifying tells of it
				f.see(b)
			}
			return ctx.Err()
		})
		if errors.Is(err, os.ErrNotExist) {
			continue // rotation dropped it meanwhile
		}
		if err != nil {
			return f.Found, err
		}
	}
	return f.Found, nil
}

type finder struct {
	Found
	q     Query
	limit int
	room  int64 // bytes left
}

func (f *finder) see(line []byte) {
	r, err := Decode(line)
	if err != nil {
		return // verifying tells of it
	}
	f.Last = r.Seq
	if !f.q.Match(&r) {
		return
	}
	f.Lines, f.room = append(f.Lines, append([]byte(nil), line...)), f.room-int64(len(line))
	for len(f.Lines) > f.limit || f.room < 0 {
		f.room += int64(len(f.Lines[0]))
		f.Lines[0] = nil
		f.Lines, f.More = f.Lines[1:], true
	}
}

// begin is the first of the files that may hold what a query selects: a file that ends before it, by the first record of the next, does not.
func begin(files []File, q *Query) int {
	for i := len(files) - 1; i > 0; i-- {
		if q.After > 0 && files[i].First <= q.After+1 {
			return i
		}
		at := firstTime(files[i])
		if !q.Since.IsZero() && !at.IsZero() && at.Before(q.Since) {
			return i
		}
	}
	return 0
}

func firstTime(f File) (t time.Time) {
	_ = Lines(f.Path, 0, func(b []byte, _ int64, _ bool) error { // a file that cannot be read is read, and told of, later
		if r, err := Decode(b); err == nil {
			t = r.Time
		}
		return io.EOF
	})
	return t
}
