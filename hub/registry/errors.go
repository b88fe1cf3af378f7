package registry

import (
	"errors"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// storeFault gives errors of the store their class. What has one keeps it.
func storeFault(err error) error {
	var e *fault.Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, store.ErrCompacted):
		return fault.Expired.Errorf("the revision asked for is no longer kept: list again and watch from the list's resourceVersion (%w)", err)
	case errors.Is(err, store.ErrOtherEpoch):
		return fault.OtherEpoch.Errorf("the revision asked for belongs to another history of the hub: list again (%w)", err)
	case errors.Is(err, store.ErrAhead):
		return fault.Ahead.Errorf("the revision asked for is ahead of this member: ask another, or later (%w)", err)
	case errors.Is(err, store.ErrSlow):
		return fault.TooManyRequests.Errorf("the watch did not keep up: resume from the last resourceVersion seen (%w)", err)
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrNoEpoch):
		return fault.Unavailable.Errorf("this member is starting or stopping: ask another (%w)", err)
	case errors.Is(err, store.ErrUnknownLevel):
		return fault.Unavailable.Errorf("this member is older than the one that sent the write: upgrade it (%w)", err)
	}
	return err
}

// refusal gives the answer of the state machine its class; conflicts are the planner's to judge.
func refusal(err error) error {
	var full *store.QuotaError
	switch {
	case errors.As(err, &full):
		return fault.TooLarge.Wrap(err)
	case errors.Is(err, store.ErrStaleTerm):
		return fault.Conflict.Errorf("this member no longer leads: nothing was written (%w)", err)
	case errors.Is(err, store.ErrBadCommand):
		return fault.BadRequest.Errorf("the write was refused: %w", err)
	}
	return storeFault(err)
}

func notFound(ref api.Ref) error { return fault.ObjectNotFound(ref.Kind.Plural, ref.Name) }

func conflict(ref api.Ref, why string) error {
	return fault.ObjectConflict(ref.Kind.Plural, ref.Name, why)
}
