package enroll

import (
	"context"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// What a JoinToken is for.
const (
	ForDevice = "device"
	ForHub    = "hub"
)

// maxTries bounds how often a write is planned anew after a conflict.
const maxTries = 8

// refusal is a "no" with a reason for people and the time after which asking again makes sense.
type refusal struct {
	message string
	retry   time.Duration
}

func (r *refusal) Error() string { return r.message }

const (
	retryToken  = 5 * time.Minute // a better token may be put in place meanwhile
	retryDenied = time.Hour
	retryWait   = 30 * time.Second // for an operator's decision
)

func refuse(retry time.Duration, message string) error { return &refusal{message, retry} }

// checkToken finds the JoinToken of a token string. An unknown name and a wrong secret get the same answer.
func checkToken(ctx context.Context, c client.Client, text wire.Secret, purpose string, now time.Time) (*api.JoinToken, error) {
	t, err := wire.ParseToken(string(text))
	if err != nil {
		return nil, refuse(retryToken, err.Error())
	}
	const unknown = "this join token is not known to the hub: it was deleted, mistyped, or belongs to another cluster; make one with drover token create"
	o, err := c.Get(ctx, api.Ref{Kind: api.KindJoinToken, Name: t.Name}, client.GetOptions{})
	if fault.Is(err, fault.NotFound) {
		return nil, refuse(retryToken, unknown)
	}
	if err != nil {
		return nil, err
	}
	j, ok := o.(*api.JoinToken)
	if !ok || !t.HasSecret(j.Spec.SecretHash) {
		return nil, refuse(retryToken, unknown)
	}
	return j, usable(j, purpose, now)
}

func usable(j *api.JoinToken, purpose string, now time.Time) error {
	is := j.Spec.For
	if is == "" {
		is = ForDevice
	}
	switch {
	case is != purpose:
		return refuse(retryToken, "join token "+j.Metadata.Name+" is for a "+is+", not for a "+purpose)
	case !j.Spec.Expires.IsZero() && !now.Before(j.Spec.Expires.Time):
		return refuse(retryToken, "join token "+j.Metadata.Name+" expired at "+j.Spec.Expires.UTC().Format(time.RFC3339)+"; make another with drover token create")
	case j.Status.Used >= max(j.Spec.Uses, 1):
		return refuse(retryToken, "join token "+j.Metadata.Name+" is used up; make another with drover token create")
	}
	return nil
}

// countUse is the write that takes one use. The token's resourceVersion is the precondition, so no use is taken twice.
func countUse(j *api.JoinToken) client.TxItem {
	n := api.Copy(j)
	n.Status.Used++
	return client.TxItem{Verb: client.TxStatus, Object: n}
}
