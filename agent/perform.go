package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/agent/workload"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

// Deadlines of driver calls. A pull has none: the driver ends one that makes no progress.
const (
	listDeadline   = 30 * time.Second
	checkDeadline  = 15 * time.Minute // it may unpack a large image on a slow card
	actDeadline    = 2 * time.Minute
	removeDeadline = 5 * time.Minute
	tokenDeadline  = time.Minute
)

// Unseal opens a secret with the device's key.
type Unseal func(wire.Sealed) ([]byte, error)

// Hands carry out what the core decides.
type Hands struct {
	Driver workload.Driver
	Unseal Unseal // nil: there is no key
	// Token asks a hub for a token; nil: there is no hub.
	Token func(context.Context, wire.TokenRequest) (wire.TokenReply, error)
}

// Perform carries out one op and gives its answer. It blocks; it is the only place that calls the driver for the core.
func (h Hands) Perform(ctx context.Context, op Op) OpDone {
	d := h.Driver
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
		done.Err = act(ctx, d, h.Unseal, op)
	case OpTokens:
		done.Tokens, done.Err = d.TokenFiles(ctx)
	case OpToken:
		done.Op.Token, done.Err = h.token(ctx, op)
	case OpDropToken:
		done.Err = d.DropToken(ctx, op.Token.TokenID)
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
	case OpTokens, OpToken, OpDropToken:
		return tokenDeadline
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

// maxToken bounds what is written into a file, in bytes.
const maxToken = 16 << 10

// token asks for a token and puts it into its file. It is in clear here only, and in the file.
func (h Hands) token(ctx context.Context, op Op) (workload.HeldToken, error) {
	t := op.Token
	if h.Token == nil || h.Unseal == nil {
		return t, fault.Unreachable.Errorf("no hub is known, or there is no key to open what it sends")
	}
	ref, err := op.Ask.Ref()
	if err != nil {
		return t, err
	}
	reply, err := h.Token(ctx, op.Ask)
	if err != nil {
		return t, err
	}
	if !sameSecret(reply.Token.Ref, ref) {
		return t, fault.Unavailable.Errorf("the hub's answer is to another request")
	}
	text, err := h.Unseal(reply.Token)
	if err != nil {
		return t, fmt.Errorf("open the token: %w", err)
	}
	defer clear(text)
	if len(text) == 0 || len(text) > maxToken {
		return t, fault.SizeLimit("the token", int64(len(text)), maxToken)
	}
	if asked := op.Ask.LifeSecs; reply.LifeSecs < asked { // renewed as much earlier as it ends earlier
		life := time.Duration(asked) * time.Second
		begun := t.Until - life
		t.Until = begun + time.Duration(reply.LifeSecs)*time.Second
		t.Renew = begun + (t.Renew-begun)*time.Duration(reply.LifeSecs)/time.Duration(asked)
	}
	return t, h.Driver.PutToken(ctx, t, text)
}
