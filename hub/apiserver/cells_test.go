package apiserver

import (
	"testing"

	"github.com/drover-fleet/drover/api"
)

func TestStatusShowsWhatIsNotAsItShouldBe(t *testing.T) {
	available := api.Condition{Type: "Available", Status: api.True, Reason: "CopiesReady"}
	drift := api.Condition{Type: api.ConditionContended, Status: api.True, Reason: "DeclaredFieldChanged"}
	settled := api.Condition{Type: api.ConditionContended, Status: api.False, Reason: "AsDeclared"}
	down := api.Condition{Type: "Available", Status: api.False, Reason: "NoDeviceSelected"}
	for _, tt := range []struct {
		conditions []api.Condition
		want       string
	}{
		{[]api.Condition{available, settled}, ""},
		{[]api.Condition{available, drift}, "Contended=True: DeclaredFieldChanged"},
		{[]api.Condition{settled, down}, "Available=False: NoDeviceSelected"},
	} {
		if got := trouble(tt.conditions); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.conditions, got, tt.want)
		}
	}
}
