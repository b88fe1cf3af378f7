package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// soundFile walks through all pages of a bbolt file that nobody has open. bbolt itself does so as it opens a file for writing, and where
// a page is not what it should be it ends the process from a goroutine of its own. Whoever looks at a directory because something is
// wrong with it must be told instead. A file that is missing or empty is sound: it is made.
func soundFile(path string) (err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() == 0 {
		return nil
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return walkPages(db, path)
}

// walkPages turns what bbolt panics with into an error, and also a page beyond the end of the file, which is a fault of the memory that
// it is mapped to.
func walkPages(db *bolt.DB, path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s is damaged: %v", path, p)
		}
	}()
	return db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				_ = bytes.Clone(v) // its last page may be missing
				return nil
			})
		})
	})
}
