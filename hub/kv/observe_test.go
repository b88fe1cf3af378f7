package kv

import (
	"errors"
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

func TestCodesAreFewWordsWhateverTheErrorSays(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, CodeOK},
		{&store.ConflictError{Key: "a key that a client chose"}, "conflict"},
		{&store.QuotaError{What: "contents"}, "full"},
		{fmt.Errorf("read at 7: %w", store.ErrCompacted), "compacted"},
		{store.ErrAhead, "ahead"},
		{store.ErrOtherEpoch, "other-epoch"},
		{fault.SlowDown(1, "this connection has %d watches already", 7), "TooManyRequests"},
		{errors.New("disk"), "Internal"},
	} {
		if got := codeOf(tt.err); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}
