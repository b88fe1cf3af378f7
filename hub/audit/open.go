package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-fleet/drover/client/auditlog"
)

// Open goes on with the log of a directory, or begins one. It verifies the newest file, cuts off a last line that is not whole, and puts the
// start on record. A chain that does not hold is left as it is, told in the first record, and gone on from in a new file.
func Open(cfg Config) (*Log, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l := &Log{cfg: cfg, flood: newFlood(), news: make(chan struct{})}
	l.idle = sync.NewCond(&l.mu)
	l.w = writer{cfg: &l.cfg}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	tail, cut, err := l.w.resume()
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if cut != nil && cut.Broken != "" {
		cfg.Logger.Error("the audit's chain does not hold", "file", cut.File, "why", cut.Broken)
	}
	l.seq = l.w.at.next - 1
	l.start(tail.Open, cut)
	return l, nil
}

// resume finds where the log stands.
func (w *writer) resume() (auditlog.Tail, *auditlog.Cut, error) {
	files, err := auditlog.Files(w.cfg.Dir)
	if err != nil {
		return auditlog.Tail{}, nil, err
	}
	tail, err := auditlog.ReadTail(files)
	if err != nil {
		return tail, nil, err
	}
	w.at = place{0, tail.Next, tail.Head}
	if len(files) == 0 {
		return tail, nil, nil
	}
	newest := files[len(files)-1]
	if tail.Broken != "" {
		return tail, &auditlog.Cut{File: filepath.Base(newest.Path), Broken: tail.Broken}, nil
	}
	info, err := os.Stat(newest.Path)
	if err != nil {
		return tail, nil, err
	}
	f, err := w.cfg.disk.open(newest.Path, false)
	if err != nil {
		return tail, nil, err
	}
	w.f, w.at.size, w.unlisted = f, tail.Size, true // whoever made it may have ended before the directory was synced
	w.synced = w.at
	torn := info.Size() - tail.Size
	if torn == 0 {
		return tail, nil, nil
	}
	if err := f.Truncate(tail.Size); err != nil {
		return tail, nil, fmt.Errorf("cut off a torn record: %w", err)
	}
	return tail, &auditlog.Cut{File: filepath.Base(newest.Path), Bytes: torn}, nil
}

// start puts on record that the log goes on, and for each request that was under way that its outcome is not known. A disk that takes
// nothing is no reason not to start: that is the log's failure, and told as such.
func (l *Log) start(open []string, cut *auditlog.Cut) {
	for _, id := range open {
		_ = l.append(context.Background(), auditlog.Record{
			Stage: auditlog.Outcome, RequestID: id, Reason: auditlog.ReasonCut, Note: "the member ended before the outcome was written",
		}, false)
	}
	_ = l.append(context.Background(), auditlog.Record{Stage: auditlog.Event, Verb: "start", Cut: cut}, true)
}
