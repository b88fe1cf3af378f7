package replica

import (
	"context"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// Want asks for a member's turn to rewrite its state file, however little that may gain. The member has had it once Wanted answers
// false. Asking while it waits changes nothing.
func (u *Upkeep) Want(ctx context.Context, member string) error {
	if err := u.r.Barrier(ctx); err != nil {
		return err
	}
	waits, err := u.Wanted(ctx, member)
	if err != nil || waits {
		return err
	}
	return u.write(ctx, 0, &store.KV{Key: turnPrefix + member}, &turn{State: turnWanted})
}

// Wanted tells whether a member waits for its turn or has it, as this member knows.
func (u *Upkeep) Wanted(ctx context.Context, member string) (bool, error) {
	got, err := u.r.Range(ctx, store.RangeRequest{Start: turnPrefix + member})
	if err != nil {
		return false, fault.Internal.Errorf("read whose turn it is: %w", err)
	}
	return len(got.KVs) > 0, nil
}
