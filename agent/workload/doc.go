// Package workload takes one assignment through its life on a device.
//
// Step is the heart: what is wanted, what the runtime was seen to hold and what was remembered go in; at most one idempotent
// action and the status to report come out. It is pure: no clock, no I/O, no goroutine. The agent steps it again after every
// change, so a crash at any point only means that the same step is decided again.
//
// It promises, of every sequence of steps: never two copies of one assignment, since the old containers are stopped and removed
// before the new ones are made; the old ones stop only once every new image is unpacked; only an order to remove (Want nil)
// removes the last of an assignment; one assignment's change touches no other; a start that failed or a container that ended
// is tried again after a wait that is remembered, jittered and capped, on a clock that nobody can set.
//
// Driver is the runtime as the agent needs it. fakedriver holds one in memory with scripts and kill points, ctrd speaks to
// containerd and is the only package that imports it. Containers are found by labels and by a name that follows from device,
// assignment, container and what runs, so a retry finds what an earlier try made.
package workload
