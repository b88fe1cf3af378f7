package auditlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Report is what a verification found.
type Report struct {
	Member  string   `json:"member,omitempty"`
	Files   int      `json:"files"`
	Records uint64   `json:"records"`
	First   uint64   `json:"first"` // number of the oldest record kept; above 1 after rotation has dropped files
	Last    uint64   `json:"last"`
	Head    string   `json:"head"`             // hash of the newest record
	Gaps    uint64   `json:"gaps,omitempty"`   // records that say that something could not be written
	Lost    uint64   `json:"lost,omitempty"`   // how many those say were lost
	Faults  []string `json:"faults,omitempty"` // where the chain does not hold; empty = sound
}

// maxFaults bounds how many faults are told.
const maxFaults = 20

func (r *Report) fault(format string, args ...any) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Verify reads every file of a directory and checks numbers and hashes. A last line without its end is no fault: it is being
// written, or will be cut at the next start.
func Verify(ctx context.Context, dir string) (Report, error) {
	files, err := Files(dir)
	if err != nil {
		return Report{}, err
	}
	c := chain{r: Report{Files: len(files)}}
	for i, f := range files {
		if err := errors.Join(ctx.Err(), c.file(f, i == len(files)-1)); err != nil {
			return c.r, err
		}
	}
	if len(files) == 0 {
		c.r.fault("no audit file is in %s", dir)
	}
	return c.r, nil
}

// chain is how far a verification has come.
type chain struct {
	r    Report
	next uint64 // 0 before the first record
	head string
}

func (c *chain) file(f File, newest bool) error {
	name, line := filepath.Base(f.Path), 0
	return Lines(f.Path, 0, func(b []byte, _ int64, whole bool) error {
		if line++; !whole && newest {
			return nil
		}
		l, err := linkOf(b)
		if err != nil || !whole {
			c.r.fault("%s line %d: %v", name, line, errLine)
			return nil
		}
		if line == 1 && l.Seq != f.First {
			c.r.fault("%s begins with record %d", name, l.Seq)
		}
		c.link(name, line, l, b)
		return nil
	})
}

func (c *chain) link(name string, line int, l Link, b []byte) {
	switch {
	case c.next == 0:
		c.r.First = l.Seq
		if l.Seq == 1 && l.Prev != "" {
			c.r.fault("%s line %d: record 1 names a record before it", name, line)
		}
	case l.Seq != c.next:
		c.r.fault("%s line %d: record %d where %d was due", name, line, l.Seq, c.next)
	case l.Prev != c.head:
		c.r.fault("%s line %d: record %d does not follow from the record before it as it stands", name, line, l.Seq)
	}
	c.next, c.head = l.Seq+1, Hash(b)
	c.r.Records++
	c.r.Last, c.r.Head = l.Seq, c.head
	if r, err := Decode(b); err == nil && r.Gap != nil {
		c.r.Gaps++
		c.r.Lost += r.Gap.Count
	}
}
