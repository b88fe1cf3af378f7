package auditlog

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

func decode(line []byte) (Record, error) {
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

// Newest returns the lines of the newest records that match, oldest first, at most limit of them and maxBytes together; more tells that
// older ones were left out, and last is the number of the newest record read, matching or not.
func Newest(dir string, q Query, limit int, maxBytes int64) (lines [][]byte, more bool, last uint64, err error) {
	files, err := Files(dir)
	if err != nil {
		return nil, false, 0, err
	}
	first := begin(files, &q)
	var size int64
	for _, f := range files[first:] {
		err := Lines(f.Path, 0, func(b []byte, _ int64, whole bool) error {
			r, err := decode(b)
			if err != nil || !whole {
				return nil // it is being written, or verifying tells of it
			}
			last = r.Seq
			if !q.Match(&r) {
				return nil
			}
			lines, size = append(lines, append([]byte(nil), b...)), size+int64(len(b))
			for len(lines) > limit || size > maxBytes {
				size -= int64(len(lines[0]))
				lines[0] = nil
				lines, more = lines[1:], true
			}
			return nil
		})
		if errors.Is(err, os.ErrNotExist) {
			continue // rotation dropped it meanwhile
		}
		if err != nil {
			return nil, false, 0, err
		}
	}
	return lines, more, last, nil
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
		if r, err := decode(b); err == nil {
			t = r.Time
		}
		return io.EOF
	})
	return t
}
