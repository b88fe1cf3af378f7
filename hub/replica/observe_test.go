package replica

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/store"
)

func TestEveryEndOfAProposalHasItsOutcome(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range []struct {
		res  store.Result
		err  error
		want string
	}{
		{store.Result{}, nil, OutcomeApplied},
		{store.Result{Repeat: true}, nil, OutcomeRepeat},
		{store.Result{Repeat: true, Err: &store.ConflictError{Key: "k"}}, nil, OutcomeConflict},
		{store.Result{Err: &store.QuotaError{What: "contents"}}, nil, OutcomeFull},
		{store.Result{Err: store.ErrStaleTerm}, nil, OutcomeRefused},
		{store.Result{}, classOf(fmt.Errorf("propose: %w", consensus.ErrBusy)), OutcomeBusy},
		{store.Result{}, fault.Unavailable.Errorf("too many writes are under way (%w)", context.DeadlineExceeded), OutcomeBusy},
		{store.Result{}, classOf(consensus.ErrNoLeader), OutcomeNoQuorum},
		{store.Result{}, unknownOutcome(consensus.ErrAmbiguous), OutcomeUnknown},
		{store.Result{}, classOf(consensus.ErrTooLarge), OutcomeInvalid},
		{store.Result{}, fault.BadRequest.Errorf("command"), OutcomeInvalid},
		{store.Result{}, classOf(consensus.ErrStopped), OutcomeFailed},
		{store.Result{}, errors.New("disk"), OutcomeFailed},
	} {
		got := outcomeOf(&tt.res, tt.err)
		if got != tt.want {
			t.Errorf("%+v, %v: got %s, want %s", tt.res, tt.err, got, tt.want)
		}
		seen[got] = true
	}
	for _, o := range Outcomes() {
		if !seen[o] {
			t.Errorf("nothing comes to %s", o)
		}
	}
	if len(seen) != len(Outcomes()) {
		t.Errorf("got %d outcomes, listed are %d", len(seen), len(Outcomes()))
	}
}
