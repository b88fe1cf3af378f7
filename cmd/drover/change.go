package main

import (
	"context"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// maxTries bounds how often a change is tried again because the object changed in between: controllers write often, but not
// for ever.
const maxTries = 20

// change reads an object, lets do alter a copy, and writes it with the version that was read as precondition; again from the start
// when somebody else was quicker. do returns false to leave the object as it is.
func change[T api.Object](ctx context.Context, hub client.Client, r api.Ref, manager string, do func(T) (bool, error)) (changed bool, err error) {
	for try := 1; ; try++ {
		obj, err := hub.Get(ctx, r, client.GetOptions{})
		if err != nil {
			return false, err
		}
		next := obj.DeepCopyObject()
		if changed, err := do(next.(T)); err != nil || !changed {
			return false, err
		}
		_, err = hub.Update(ctx, next, client.WriteOptions{FieldManager: manager})
		if !fault.Is(err, fault.Conflict) || try == maxTries || ctx.Err() != nil {
			return err == nil, err
		}
	}
}
