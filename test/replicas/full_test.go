package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/replica"
	"github.com/drover-fleet/drover/store"
)

// TestF30FullHubTakesDeletionsCompactionAndMembersAndClearsItself: a quota that is reached stops what adds, and nothing that is needed
// to get out of it; the alarm was announced before, and ends without anybody's help.
func TestF30FullHubTakesDeletionsCompactionAndMembersAndClearsItself(t *testing.T) {
	c := start(t)
	h := hubOn(t, c.Leader())
	term, _ := h.Leadership()
	var said journal
	u, err := replica.NewUpkeep(h.Replica, replica.Growth{
		KeepRevisions: 20, KeepFor: time.Nanosecond,
		Limits: store.Limits{Data: store.Quota{Max: 1_200_000, High: 1_000_000, Low: 700_000}},
	}, replica.UpkeepOptions{Every: 5 * time.Millisecond, Pause: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	var upkeep sync.WaitGroup
	upkeep.Go(func() { _ = u.Lead(ctx, term) })
	defer upkeep.Wait()
	defer cancel()
	c.Until("the limits are set", func() bool { return h.Usage().Limits.Data.Max == 1_200_000 })

	user := h.As(someone)
	var made []string
	for {
		name := fmt.Sprint("fill-", len(made))
		o := configMap(name)
		o.Data = map[string]string{"k": strings.Repeat("x", 40_000)}
		if _, err = user.Create(ctx, o, client.WriteOptions{}); err != nil {
			break
		}
		if made = append(made, name); h.Usage().Data > 850_000 && !h.Usage().DataFull {
			c.Until("it is announced before", func() bool { return strings.Contains(said.String(), "the store fills up") })
		}
	}
	var full *store.QuotaError
	if !errors.As(err, &full) || !fault.Is(err, fault.TooLarge) {
		t.Fatalf("after %d objects: got %v, want a refusal by the quota", len(made), err)
	}
	c.Until("it is said", func() bool { return strings.Contains(said.String(), "the store is full") })

	c.Join("h4")
	c.WaitVoters(4)
	if err := c.Any().Node.RemoveMember(ctx, c.Members["h4"].Node.Status().ID); err != nil {
		t.Errorf("removing a member of a full hub: %v", err)
	}
	c.Stop("h4")
	for _, name := range made {
		if err := user.Delete(ctx, refOf(name), client.DeleteOptions{}); err != nil {
			t.Fatalf("deleting %s from a full hub: %v", name, err)
		}
	}
	c.Until("the alarm clears itself, by compaction alone", func() bool { return !h.Usage().DataFull })
	if _, err := user.Create(ctx, configMap("again"), client.WriteOptions{}); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}
