package auditlog

import (
	"fmt"
	"os"
)

// Tail is where a log goes on: what a start finds.
type Tail struct {
	Next uint64 // number of the next record
	Head string // hash of the last
	// Size is where the newest file goes on, in bytes; what is behind it is to be cut off.
	Size int64
	// Broken says where the chain does not hold in the newest file; then it is left as it is and the log goes on in a new file.
	Broken string
	// Open are the requests of the newest file that have a receipt and no outcome.
	Open []string
}

// ReadTail reads the newest of the files, which are a directory's as [Files] lists them. Where that one holds no whole record, the one
// before it says where the chain stands.
func ReadTail(files []File) (Tail, error) {
	t := Tail{Next: 1}
	if len(files) == 0 {
		return t, nil
	}
	last := files[len(files)-1]
	if len(files) > 1 {
		before, err := lastOf(files[len(files)-2])
		if err != nil {
			return t, err
		}
		return readTail(last, &before)
	}
	t.Next = last.First
	return readTail(last, nil)
}

// lastOf is where a file that is no longer written ends.
func lastOf(f File) (Tail, error) {
	t := Tail{Next: f.First}
	info, err := os.Stat(f.Path)
	if err != nil {
		return t, fmt.Errorf("read audit file: %w", err)
	}
	from := max(info.Size()-2*MaxLine, 0)
	err = Lines(f.Path, from, func(b []byte, _ int64, whole bool) error {
		// The first line may be a part of one, which is no record.
		if l, err := linkOf(b); err == nil && whole {
			t.Next, t.Head = l.Seq+1, Hash(b)
		}
		return nil
	})
	return t, err
}

// readTail follows the chain of one file; after, when set, is where the file before it ended.
func readTail(f File, after *Tail) (Tail, error) {
	t := Tail{Next: f.First}
	known := after != nil && after.Next > 1
	if known {
		t.Next, t.Head = after.Next, after.Head
	}
	open := map[string]int{} // receipts without an outcome: a client may use an id more than once
	var order []string
	torn := false
	err := Lines(f.Path, 0, func(b []byte, end int64, whole bool) error {
		l, err := linkOf(b)
		if err != nil || !whole {
			torn = true
			return nil
		}
		switch {
		case torn:
			t.breaks("record %d comes after a line that is no record", l.Seq)
		case l.Seq != t.Next:
			t.breaks("record %d where %d was due", l.Seq, t.Next)
		case known && l.Prev != t.Head:
			t.breaks("record %d does not follow from the record before it as it stands", l.Seq)
		}
		known, torn = true, false
		t.Next, t.Head, t.Size = l.Seq+1, Hash(b), end
		switch {
		case l.RequestID == "":
		case l.Stage == Receipt:
			if open[l.RequestID] == 0 {
				order = append(order, l.RequestID)
			}
			open[l.RequestID]++
		case l.Stage == Outcome && open[l.RequestID] > 1:
			open[l.RequestID]--
		case l.Stage == Outcome:
			delete(open, l.RequestID)
		}
		return nil
	})
	for _, id := range order {
		for range open[id] {
			t.Open = append(t.Open, id)
		}
		delete(open, id) // which may have been opened anew
	}
	return t, err
}

func (t *Tail) breaks(format string, args ...any) {
	if t.Broken == "" {
		t.Broken = fmt.Sprintf(format, args...)
	}
}
