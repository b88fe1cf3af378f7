package replica

import (
	"context"
	"errors"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
)

// What a proposal comes to, for those who count.
const (
	OutcomeApplied  = "applied"
	OutcomeRepeat   = "repeat"    // it had been applied before: an answer was lost
	OutcomeConflict = "conflict"  // a precondition did not hold
	OutcomeFull     = "full"      // refused by a quota
	OutcomeRefused  = "refused"   // by what else the store judges: an earlier term, an unknown level
	OutcomeBusy     = "busy"      // too much was waiting until the caller gave up
	OutcomeNoQuorum = "no_quorum" // never on its way for want of a leader
	OutcomeUnknown  = "unknown"   // no answer in time; it may still take effect
	OutcomeInvalid  = "invalid"   // malformed or too large
	OutcomeFailed   = "failed"    // this member cannot serve
)

// Outcomes lists all of them.
func Outcomes() []string {
	return []string{
		OutcomeApplied, OutcomeRepeat, OutcomeConflict, OutcomeFull, OutcomeRefused,
		OutcomeBusy, OutcomeNoQuorum, OutcomeUnknown, OutcomeInvalid, OutcomeFailed,
	}
}

func outcomeOf(res *store.Result, err error) string {
	switch fault.ClassOf(err) {
	case "":
		return outcomeOfResult(res)
	case fault.TooManyRequests:
		return OutcomeBusy
	case fault.Timeout:
		return OutcomeUnknown
	case fault.BadRequest, fault.TooLarge:
		return OutcomeInvalid
	}
	switch {
	case errors.Is(err, consensus.ErrNoLeader):
		return OutcomeNoQuorum
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // it waited for its turn
		return OutcomeBusy
	}
	return OutcomeFailed
}

func outcomeOfResult(res *store.Result) string {
	var conflict *store.ConflictError
	var full *store.QuotaError
	switch {
	case errors.As(res.Err, &conflict):
		return OutcomeConflict
	case errors.As(res.Err, &full):
		return OutcomeFull
	case res.Err != nil:
		return OutcomeRefused
	case res.Repeat:
		return OutcomeRepeat
	}
	return OutcomeApplied
}

// What the upkeep of a store does, for those who count.
const (
	TaskBounds = "bounds" // the leader's: limits, compaction, journal, turns
	TaskFile   = "file"   // every member's: its own file
)

// UpkeepTasks lists both.
func UpkeepTasks() []string { return []string{TaskBounds, TaskFile} }
