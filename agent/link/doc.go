// Package link keeps an agent in touch with a hub: some hub member, over some transport.
//
// It promises: one session at a time, numbered higher than any before; fail-over over all known hub members with capped,
// fully jittered back-off that obeys Retry-After; a latest-value outbox (never a queue of stale reports); a deadline on every
// exchange, so that a half-open connection is found by the bytes that do not come; and that nothing reaches the agent which
// is not signed by a member of its own cluster, for this device. It never gives up and never ends because of a hub.
//
// It does not decide what to do with what it brings: order, completeness and removal are the agent's rules. It holds no
// state on disk besides what its owner's callbacks keep.
package link
