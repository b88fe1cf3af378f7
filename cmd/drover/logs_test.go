package main

import (
	"context"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// refusing answers every read with its error.
type refusing struct {
	client.Client
	err error
}

func (r refusing) Get(context.Context, api.Ref, client.GetOptions) (api.Object, error) {
	return nil, r.err
}

func TestLogsAreReadByWhoMayNotSeeDevices(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool // that the log is asked for
	}{
		{fault.Forbidden.Errorf("devices are not yours"), true},
		{fault.NotFound.Errorf("there is no such device"), false},
		{fault.Unreachable.Errorf("nobody answers"), false},
	} {
		if got := offline(t.Context(), refusing{err: tt.err}, "pi-01"); (got == nil) != tt.want {
			t.Errorf("%v: got %v, want the log asked for: %v", tt.err, got, tt.want)
		}
	}
}
