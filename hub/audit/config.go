package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// OnFailure says what becomes of writes while nothing can be put on record.
type OnFailure string

// The policies.
const (
	Refuse    OnFailure = "refuse"     // writes are refused; default
	RecordGap OnFailure = "record-gap" // writes go on, and how many were not recorded is recorded afterwards
)

// Defaults and bounds.
const (
	DefaultFileBytes = 64 << 20
	DefaultKeep      = 8
	LeastFileBytes   = 64 << 10
	reserveBytes     = 1 << 20 // for outcomes of what is under way when the disk is full: about a thousand
	maxQueueBytes    = 32 << 20
	recordBytes      = 512 // a record without its body, about
)

// Config of a Log. Dir and Member are required.
type Config struct {
	Dir       string
	Member    string
	FileBytes int64 // a file is ended when it would be larger; default DefaultFileBytes
	Keep      int   // files kept, the one being written included; default DefaultKeep
	OnFailure OnFailure
	Policy    *Policy // nil: the built-in one
	Logger    *slog.Logger
	Now       func() time.Time

	// Observe, when set, hears of each write to the disk: how many records it held, whether and for how long it was synced, and its error.
	Observe func(records int, synced bool, took time.Duration, err error)

	disk disk // of tests
}

func (c *Config) validate() error {
	var errs []error
	if c.Dir == "" || c.Member == "" {
		errs = append(errs, errors.New("directory or member is missing"))
	}
	if c.FileBytes == 0 {
		c.FileBytes = DefaultFileBytes
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.OnFailure == "" {
		c.OnFailure = Refuse
	}
	if c.FileBytes < LeastFileBytes {
		errs = append(errs, fmt.Errorf("files of %d bytes: want %d or more", c.FileBytes, LeastFileBytes))
	}
	if c.Keep < 2 {
		errs = append(errs, fmt.Errorf("keep %d files: want 2 or more", c.Keep))
	}
	if c.OnFailure != Refuse && c.OnFailure != RecordGap {
		errs = append(errs, fmt.Errorf("on failure %q: want %s or %s", c.OnFailure, Refuse, RecordGap))
	}
	if c.Policy == nil {
		c.Policy = DefaultPolicy()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.disk == nil {
		c.disk = osDisk{}
	}
	return errors.Join(errs...)
}
