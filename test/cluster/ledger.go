package cluster

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/drover-fleet/drover/consensus"
)

// Ledger is the simplest machine that can show a lost, doubled or reordered command: it keeps every command it was
// given, by the place it came in. The result of a command is its place, from 1.
type Ledger struct {
	db *bbolt.DB

	mu      sync.Mutex // guards below
	applied uint64
	lines   []string
	entries int // entries with commands since open
}

var ledgerBucket = []byte("ledger")

// ledgerImage is a copy of a ledger.
type ledgerImage struct {
	Lines []string
}

// OpenLedger opens the ledger in a directory, with its applied index.
func OpenLedger(dir string) (Machine, error) {
	db, err := bbolt.Open(filepath.Join(dir, "ledger.db"), 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(ledgerBucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			if string(k) == "applied" {
				l.applied = binary.BigEndian.Uint64(v)
			} else {
				l.lines = append(l.lines, string(v))
			}
			return nil
		})
	})
	return l, err
}

// Applied is the index of the last entry applied.
func (l *Ledger) Applied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied
}

// Lines returns the commands in the order they were applied.
func (l *Ledger) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// Entries counts the entries that held commands since the ledger was opened.
func (l *Ledger) Entries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries
}

// Close closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// Apply implements consensus.Machine.
func (l *Ledger) Apply(entries []consensus.Entry) ([][]any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	results := make([][]any, len(entries))
	err := l.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(ledgerBucket)
		for i, e := range entries {
			if e.Index <= l.applied {
				return fmt.Errorf("entry %d after %d", e.Index, l.applied)
			}
			l.applied = e.Index
			for _, cmd := range e.Commands {
				l.lines = append(l.lines, string(cmd))
				results[i] = append(results[i], len(l.lines))
				if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(len(l.lines))), cmd); err != nil {
					return err
				}
			}
			if len(e.Commands) > 0 {
				l.entries++
			}
		}
		return b.Put([]byte("applied"), binary.BigEndian.AppendUint64(nil, l.applied))
	})
	return results, err
}

// Synced implements consensus.Machine.
func (l *Ledger) Synced() uint64 { return l.Applied() }

// Snapshot implements consensus.Machine.
func (l *Ledger) Snapshot() (uint64, io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(ledgerImage{Lines: l.lines})
	return l.applied, io.NopCloser(&b), err
}

// Restore implements consensus.Machine.
func (l *Ledger) Restore(index uint64, r io.Reader) error {
	var image ledgerImage
	if err := gob.NewDecoder(r).Decode(&image); err != nil {
		return fmt.Errorf("decode ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.db.Update(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(ledgerBucket); err != nil {
			return err
		}
		b, err := tx.CreateBucket(ledgerBucket)
		if err != nil {
			return err
		}
		for i, line := range image.Lines {
			if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(i+1)), []byte(line)); err != nil {
				return err
			}
		}
		return b.Put([]byte("applied"), binary.BigEndian.AppendUint64(nil, index))
	})
	if err != nil {
		return err
	}
	l.applied, l.lines = index, image.Lines
	return nil
}
