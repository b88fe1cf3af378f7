package hub

import (
	"context"

	"github.com/drover-fleet/drover/client/cache"
)

// newRights makes what this member decides rights by: a policy, and the informers that feed it once they run.
func (h *Hub) newRights() {
	h.roles = cache.NewSet(h.as("hub:"+h.id.Name), cache.Options{Random: random, Logger: h.log})
	h.access.Follow(h.roles.Of)
}

// followRights keeps the policy as new as this member's copy.
func (h *Hub) followRights(ctx context.Context) error { return h.roles.Run(ctx) }
