// Package ctrd runs containers on containerd. It is the only package that imports containerd's client.
//
// Each device has its own containerd namespace; containers of others in the same daemon are neither seen nor touched. What the
// agent must know again after a crash lies in labels of the container itself: whose it is, what it runs, and which start was
// the last. All containers of one assignment share one shim.
//
// It promises what workload.Driver asks for: every call may be repeated after a crash at any point; a daemon that does not
// answer is ErrUnavailable and never an empty list; a present image is used without the network; secrets reach the process
// through secretenv and are in no file.
//
// Containers run in the network namespace of the agent's process, which need not be the daemon's.
package ctrd
