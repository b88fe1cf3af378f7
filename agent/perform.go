package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/wire"
)

// Deadlines of driver calls. A pull has none: the driver ends one that makes no progress.
const (
	listDeadline   = 30 * time.Second
	checkDeadline  = 15 * time.Minute // it may unpack a large image on a slow card
	actDeadline    = 2 * time.Minute
	removeDeadline = 5 * time.Minute
)

// Unseal opens a secret with the device's key.
type Unseal func(wire.Sealed) ([]byte, error)

// Perform carries out one op and gives its answer. It blocks; it is the only place that calls the driver for the core.
func Perform(ctx context.Context, d workload.Driver, unseal Unseal, op Op) OpDone {
	done := OpDone{Op: op}
	if limit := deadline(op); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	switch op.Kind {
	case OpList:
		done.Containers, done.Err = d.List(ctx)
	case OpCheck:
		done.OK, done.Err = d.HasImage(ctx, op.Ref)
	case OpPull:
		done.Err = d.Pull(ctx, op.Ref)
	case OpProbe:
		code, err := d.Exec(ctx, op.Probe.ID, op.Probe.Command, op.Probe.Timeout)
		done.OK, done.Err = err == nil && code == 0, err
		if err != nil {
			done.Why = fmt.Sprintf("%q: %v", op.Probe.Command[0], err)
		} else if code != 0 {
			done.Why = fmt.Sprintf("%q ends with exit code %d", op.Probe.Command[0], code)
		}
	case OpAct:
		done.Err = act(ctx, d, unseal, op)
	}
	return done
}

func deadline(op Op) time.Duration {
	switch op.Kind {
	case OpList:
		return listDeadline
	case OpCheck:
		return checkDeadline
	case OpProbe:
		return op.Probe.Timeout + 10*time.Second
	case OpAct:
		if k := op.Action.Kind; k == workload.Remove || k == workload.Forget {
			return removeDeadline
		}
		return actDeadline + op.Action.Grace
	}
	return 0
}

func act(ctx context.Context, d workload.Driver, unseal Unseal, op Op) error {
	a := op.Action
	switch a.Kind {
	case workload.Create:
		return d.Create(ctx, op.Spec)
	case workload.Start:
		secrets, err := open(unseal, op.Sealed)
		if err != nil {
			return err
		}
		return d.Start(ctx, op.Spec, op.Run, secrets)
	case workload.Stop:
		return d.Stop(ctx, a.ID, a.Grace)
	case workload.Remove:
		return d.Remove(ctx, a.ID)
	case workload.Forget:
		return d.Forget(ctx, a.UID)
	}
	panic(fmt.Sprintf("agent: action of kind %d", a.Kind))
}

// open unseals secrets, in memory only.
func open(unseal Unseal, sealed []SealedEnv) ([]workload.SecretEnv, error) {
	var out []workload.SecretEnv
	for _, s := range sealed {
		if unseal == nil {
			return nil, fmt.Errorf("secret %s: the device has no key to open it with", s.Sealed.Ref.Name)
		}
		v, err := unseal(s.Sealed)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", s.Sealed.Ref.Name, err)
		}
		out = append(out, workload.SecretEnv{Name: s.Name, Value: v})
	}
	return out, nil
}
