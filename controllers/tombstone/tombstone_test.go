package tombstone

import (
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
)

func TestTombstonesOfADeletedDeviceWaitForItsReturn(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	aged := func(name string, age time.Duration) *api.Tombstone {
		return &api.Tombstone{Metadata: api.ObjectMeta{Name: name, CreationTimestamp: api.TimeOf(now.Add(-age))}}
	}
	over, next := expired([]*api.Tombstone{aged("fresh", time.Hour), aged("due", Keep), aged("soon", Keep-time.Minute), aged("old", 2*Keep)}, now)
	var got []string
	for _, o := range over {
		got = append(got, o.Metadata.Name)
	}
	if len(got) != 2 || got[0] != "due" || got[1] != "old" {
		t.Errorf("got %v over, want due and old", got)
	}
	if next != time.Minute {
		t.Errorf("got %s until the next, want 1m", next)
	}
	if over, next := expired([]*api.Tombstone{aged("old", Keep)}, now); len(over) != 1 || next != 0 {
		t.Errorf("got %d over and %s, want 1 and nothing to wait for", len(over), next)
	}
}
