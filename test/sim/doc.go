// Package sim runs a whole hub and its fleet in one goroutine, from one queue, under virtual time, with every choice taken from a
// seed: the members' consensus cores, logs and stores, clients and watchers of them, gateways, and agents with fake runtimes.
// A seed replays identically, which its trace hash shows.
//
// The world is unkind: messages are late, lost, doubled, out of order, cut off in one direction or both; disks are slow, full, or
// fail to sync; members stall, and crash at any point of a write; a member comes back on an old copy of its directory; clocks of
// members and devices step; devices lose power, in the middle of a save too, their agents are killed or stall, their disks fill up,
// their runtimes go away, and people remove containers by hand. A store's file is written at checkpoints alone, and a crash leaves
// each file of a member at its own last commit.
//
// What it judges is the history of the run (test/history) and, after the last fault, that everything comes to rest as declared.
//
// Where code waits (a request to a gateway, an informer, a controller, the scheduler, a device's link) it runs as a coroutine that
// only the queue resumes: the very code of a process, given another api/await.Waiter. The member that leads runs controllers.Run
// with every loop and the scheduler under the term of its office; devices run agent.Core under agent/link.Session, with real
// signatures.
//
// What it does not show: data races and the loops around the cores (the cluster tests run those), the file systems' own lies (the
// power cut tests), and how the real transports fail.
package sim
