package hub

import (
	"context"
	"errors"
	"time"

	"github.com/drover-fleet/drover/store/mvcc"
)

// Hashes that members compare follow from what they applied. What a disk has changed since shows only when the file is read through.

const (
	verifyFirst = 2 * time.Minute // after the start, which has enough to read
	verifyEvery = 6 * time.Hour
	verifyAgain = 10 * time.Minute // once damage was found: is it gone?
)

// verify reads this member's state file now and then. Damage is an alarm, and where enough others run that hold the state, the member
// gives its copy up and is given the state again.
func (h *Hub) verify(ctx context.Context) error {
	timer := time.NewTimer(verifyFirst)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		next := verifyEvery
		damaged, err := h.verifyOnce(ctx)
		if err != nil {
			return err
		}
		if damaged {
			next = verifyAgain
		}
		timer.Reset(next)
	}
}

func (h *Hub) verifyOnce(ctx context.Context) (damaged bool, err error) {
	err = h.store.Verify(ctx)
	switch damaged = errors.Is(err, mvcc.ErrDamaged); {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && !damaged:
		h.log.Warn("the state file could not be read through", "err", err)
		return false, nil
	}
	h.findings.damage(damaged)
	if !damaged {
		return false, nil
	}
	if !h.othersSuffice(ctx) {
		h.log.Error("the disk has changed the state file, and too few other members run to give this one the state again", "err", err)
		return true, nil
	}
	h.log.Error("the disk has changed the state file: this member is given the state again", "err", err)
	h.handOver()
	return true, h.node.Reseed()
}

// othersSuffice tells whether the other members that answer are a majority by themselves.
func (h *Hub) othersSuffice(ctx context.Context) bool {
	answer, voters := 0, 0
	for _, m := range h.node.Members() {
		if m.Learner {
			continue
		}
		voters++
		if m.Name == h.id.Name {
			continue
		}
		if _, err := h.hashesOf(ctx, m); err == nil {
			answer++
		}
	}
	return answer > voters/2
}
