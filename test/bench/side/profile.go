package side

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-fleet/drover/test/bench/report"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

const (
	profileTime = 6 * time.Second // of each kind, one after the other
	profileRoom = 2 * time.Second // for the load to begin, and between kinds
)

// Profile drives the side for as long as cpu, block, mutex and heap profiles of all its members take, which are left in a folder with
// their tables. No figure comes from this run: being watched costs. The members are told apart by who led when it began.
func (s *Side) Profile(ctx context.Context, dir string, spec load.Spec) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	kinds := []string{"cpu", "block", "mutex", "heap"}
	spec.Warm, spec.Measure = profileRoom, time.Duration(len(kinds))*(profileTime+profileRoom)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var under load.Result
	var loadErr error
	var wg sync.WaitGroup
	wg.Go(func() { under, loadErr = s.Run(ctx, spec) })
	pause(ctx, profileRoom)
	var errs []error
	for _, kind := range kinds {
		errs = append(errs, s.profiles(ctx, dir, kind, leader))
	}
	wg.Wait()
	if loadErr == nil {
		fmt.Fprintf(os.Stderr, "%-58s %-6s %9.0f/s  in %s\n", "while profiles were taken", s.Name, under.Rate(), dir)
	}
	return errors.Join(append(errs, loadErr)...)
}

// profiles takes one kind of all members at once.
func (s *Side) profiles(ctx context.Context, dir, kind string, leader int) error {
	errs := make([]error, Members)
	over := profileTime
	if kind == "heap" {
		over = 0 // it is of one moment
	}
	var wg sync.WaitGroup
	for i := range Members {
		role := "follower"
		if i == leader {
			role = "leader"
		}
		file := filepath.Join(dir, fmt.Sprintf("%s-%s.%s.pb.gz", filepath.Base(s.Dirs[i]), role, kind))
		wg.Go(func() {
			errs[i] = report.Profile(ctx, s.Dirs[i], kind, over, file)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
