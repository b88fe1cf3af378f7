package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/hub/tokens"
)

// deviceTokens makes the tokens that the gateway found a device to have a right to. Each is on record before it is made.
type deviceTokens struct {
	authority *tokens.Authority
	audit     *audit.Log
}

// AccountToken implements gateway.TokenMaker.
func (d deviceTokens) AccountToken(ctx context.Context, c gateway.TokenClaim) (gateway.MadeToken, error) {
	began := time.Now()
	k := api.KindServiceAccount
	r := auditlog.Record{
		RequestID: rand.Text(), Actor: "device:" + c.Device, Source: audit.SourceOf(ctx), Verb: "token",
		Object: &auditlog.Object{Resource: k.Plural, Subresource: "token", Kind: k.Kind, Namespace: c.Namespace, Name: c.Account},
		Note:   fmt.Sprintf("for assignment %s (%s), audience %q", c.Assignment, c.UID, c.Audience),
	}
	if err := d.audit.Receipt(ctx, r); err != nil {
		return gateway.MadeToken{}, err
	}
	t, err := d.authority.Issue(ctx, tokens.Request{
		Namespace: c.Namespace, Account: c.Account, Audiences: []string{c.Audience}, Life: c.Life,
		Bound: &tokens.Bound{Kind: api.KindAssignment, Name: c.Assignment, UID: c.UID},
	})
	r.Code, r.Decision, r.Ms = 200, auditlog.Allow, time.Since(began).Milliseconds()
	if err != nil {
		s := fault.StatusOf(err)
		r.Code, r.Reason = s.Code, s.Reason
	}
	d.audit.Outcome(r)
	return gateway.MadeToken{Text: t.Text, Life: t.Expires.Sub(t.Made)}, err
}
