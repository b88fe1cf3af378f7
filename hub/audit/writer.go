package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/client/auditlog"
)

const (
	fileReserve  = "reserve"
	reserveAgain = time.Second // between two attempts to have the reserve back
)

// place is where a log stands.
type place struct {
	size int64  // of the newest file
	next uint64 // number of the next record
	head string // hash of the last
}

// writer brings records to files. It is for one goroutine at a time.
//
// at is where the newest file was written to, and synced is where it was synced to: a failed write goes back to at, a failed sync to
// synced, since what the kernel holds of the rest is then unknown.
type writer struct {
	cfg      *Config
	f        file // nil: the next write begins a file
	at       place
	synced   place
	torn     bool // what is behind at has yet to be cut off
	unlisted bool // the directory has yet to be synced: a crash could lose the newest file by its name
	reserved bool
	tried    time.Time // when the reserve was last asked for
}

// write appends the records of a batch, before them the gap if there is one, and syncs if the batch is to be durable. lost is how many
// records are not on the disk because of an error.
func (w *writer) write(b *batch, missed auditlog.Gap) (lost uint64, err error) {
	w.takeReserve()
	records := b.records
	if missed.Count > 0 {
		gap := auditlog.Record{Stage: auditlog.Event, Time: w.cfg.Now().UTC(), Verb: "gap", Gap: &missed}
		records = append([]auditlog.Record{gap}, records...)
	}
	before := w.at.next
	for len(records) > 0 && err == nil {
		var n int
		n, err = w.some(records)
		records = records[n:]
	}
	if err == nil && b.durable {
		err = w.sync()
	}
	if err == nil {
		return 0, nil
	}
	// Behind synced nothing is sure; what is between it and at is there unless the sync failed.
	written := uint64(0)
	if w.at.next > before {
		written = w.at.next - before
	}
	if missed.Count > 0 && written > 0 {
		written-- // the gap itself
	}
	lost = uint64(len(b.records)) - min(written, uint64(len(b.records)))
	if before > w.at.next {
		lost += before - w.at.next
	}
	return lost, err
}

// some writes as many of the records as the newest file takes, and begins another file when it takes none.
func (w *writer) some(records []auditlog.Record) (n int, err error) {
	if err := w.mend(); err != nil {
		return 0, err
	}
	if w.f == nil {
		if err := w.begin(); err != nil {
			return 0, err
		}
	}
	if err := w.enlist(); err != nil {
		return 0, err
	}
	to := w.at
	var buf []byte
	for i := range records {
		line, err := w.line(records[i], to)
		if err != nil {
			return 0, err
		}
		if to.size > 0 && to.size+int64(len(line))+1 > w.cfg.FileBytes {
			break
		}
		buf = append(append(buf, line...), '\n')
		to = place{to.size + int64(len(line)) + 1, to.next + 1, auditlog.Hash(line)}
		n++
	}
	if n == 0 {
		return 0, w.rotate()
	}
	if err := w.put(buf); err != nil {
		return 0, err
	}
	w.at = to
	return n, nil
}

// line encodes a record at its place. One that is too long for a line loses its body, then its words.
func (w *writer) line(r auditlog.Record, at place) ([]byte, error) {
	r.Seq, r.Prev, r.Member = at.next, at.head, w.cfg.Member
	b, err := r.Encode()
	if err == nil && len(b) >= auditlog.MaxLine {
		r.Body, r.Note = nil, fmt.Sprintf("a record of %d bytes was cut to what names it", len(b))
		r.Path, r.Groups, r.Items = clip(r.Path), nil, nil
		b, err = r.Encode()
	}
	if err != nil {
		return nil, fmt.Errorf("encode audit record: %w", err)
	}
	return b, nil
}

func clip(s string) string { return s[:min(len(s), 1024)] }

// put appends bytes; where the disk is full the reserve makes room for them.
func (w *writer) put(b []byte) error {
	_, err := w.f.Write(b)
	if err == nil {
		return nil
	}
	w.torn = true
	if w.reserved && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		w.reserved, w.tried = false, w.cfg.Now()
		if cut := w.mend(); cut != nil {
			return errors.Join(err, cut)
		}
		if rerr := w.cfg.disk.remove(w.path(fileReserve)); rerr != nil {
			return errors.Join(err, rerr)
		}
		if _, err = w.f.Write(b); err == nil {
			return nil
		}
		w.torn = true
	}
	return errors.Join(fmt.Errorf("write audit: %w", err), w.mend())
}

// mend cuts off what a failed write left.
func (w *writer) mend() error {
	if !w.torn || w.f == nil {
		return nil
	}
	if err := w.f.Truncate(w.at.size); err != nil {
		return fmt.Errorf("cut the audit back to its last record: %w", err)
	}
	w.torn = false
	return nil
}

func (w *writer) sync() error {
	if w.f == nil || w.synced == w.at {
		return nil
	}
	if err := w.f.Sync(); err != nil {
		w.at, w.torn = w.synced, true
		return errors.Join(fmt.Errorf("sync audit: %w", err), w.mend())
	}
	w.synced = w.at
	return nil
}

func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	err := w.f.Close()
	w.f, w.at.size, w.synced.size = nil, 0, 0
	if err != nil {
		return fmt.Errorf("close audit file: %w", err)
	}
	return w.begin()
}

// begin makes the file that the next record goes to, and drops the oldest beyond what is kept.
func (w *writer) begin() error {
	name := w.path(auditlog.FileName(w.at.next))
	f, err := w.cfg.disk.open(name, true)
	if errors.Is(err, fs.ErrExist) { // an earlier attempt that came no further, or what was edited or renamed: evidence
		if err = w.cfg.disk.setAside(name); err == nil {
			f, err = w.cfg.disk.open(name, true)
		}
	}
	if err != nil {
		return fmt.Errorf("begin audit file: %w", err)
	}
	w.f, w.at.size, w.torn, w.unlisted = f, 0, false, true
	w.synced = w.at
	if err := w.enlist(); err != nil {
		return err
	}
	return w.drop()
}

// enlist brings the newest file's name to the disk; until then nothing in the file is durable.
func (w *writer) enlist() error {
	if !w.unlisted {
		return nil
	}
	if err := w.cfg.disk.syncDir(w.cfg.Dir); err != nil {
		return fmt.Errorf("sync audit directory: %w", err)
	}
	w.unlisted = false
	return nil
}

func (w *writer) drop() error {
	files, err := auditlog.Files(w.cfg.Dir)
	if err != nil {
		return err
	}
	for ; len(files) > w.cfg.Keep; files = files[1:] {
		if err := w.cfg.disk.remove(files[0].Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("drop the oldest audit file: %w", err)
		}
	}
	return nil
}

// takeReserve sets room aside, if it is not, now and then.
func (w *writer) takeReserve() {
	if w.reserved || w.cfg.Now().Sub(w.tried) < reserveAgain {
		return
	}
	w.tried = w.cfg.Now()
	w.reserved = w.cfg.disk.reserve(w.path(fileReserve), reserveBytes) == nil
}

func (w *writer) path(name string) string { return filepath.Join(w.cfg.Dir, name) }

func (w *writer) close() error {
	if w.f == nil {
		return nil
	}
	err := errors.Join(w.sync(), w.f.Close())
	w.f = nil
	return err
}
