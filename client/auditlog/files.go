package auditlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	prefix = "audit-"
	suffix = ".jsonl"
	digits = 20
	// MaxLine bounds a record, in bytes.
	MaxLine = 256 << 10
)

// FileName is the name of the file that begins with a record.
func FileName(first uint64) string { return fmt.Sprintf("%s%0*d%s", prefix, digits, first, suffix) }

// File is one file of a log.
type File struct {
	Path  string
	First uint64 // number of its first record
}

// Files lists a directory's files, oldest first. A directory that does not exist has none.
func Files(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list audit files: %w", err)
	}
	var out []File
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		number, ok = strings.CutSuffix(number, suffix)
		first, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || len(number) != digits {
			continue
		}
		out = append(out, File{filepath.Join(dir, e.Name()), first})
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Link is what a line says of its place in the chain.
type Link struct {
	Seq       uint64 `json:"seq"`
	Prev      string `json:"prev"`
	Stage     Stage  `json:"stage"`
	RequestID string `json:"requestID"`
}

// errLine is a line that is no record.
var errLine = errors.New("not a whole record")

func linkOf(line []byte) (Link, error) {
	var l Link
	if err := json.Unmarshal(line, &l); err != nil || l.Seq == 0 {
		return l, errLine
	}
	return l, nil
}

// Lines calls fn with each line of a file from an offset on, without its end, and the offset behind it. The last piece is given too if
// its end is missing, with whole false. The slice is valid during the call only. io.EOF from fn ends the reading without an error.
func Lines(path string, from int64, fn func(line []byte, end int64, whole bool) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open audit file: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("read audit file: %w", err)
	}
	r := bufio.NewReaderSize(f, MaxLine+1)
	for at := from; ; {
		line, err := r.ReadSlice('\n')
		at += int64(len(line))
		whole := err == nil
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if len(line) == 0 {
			return nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			line = line[:0] // longer than any record: no part of it is one
		}
		if err := fn(bytes.TrimSuffix(line, []byte("\n")), at, whole); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
