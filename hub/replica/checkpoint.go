package replica

import (
	"context"
	"time"
)

// checkpointEvery bounds how much of the log a start has to apply again, and how often an almost idle hub writes to its flash.
const checkpointEvery = 5 * time.Second

// KeepFile brings the state file up to what was applied, every few seconds in which something was, until ctx ends, and once more
// then. An error is a broken disk.
func (r *Replica) KeepFile(ctx context.Context) error {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := r.Checkpoint(); err != nil {
				return err
			}
		case <-ctx.Done():
			return r.Checkpoint()
		}
	}
}
