// Package hub is one member of the control plane: it puts the parts below it together and runs them.
//
// What it promises: a directory belongs to one member for life; a member restarts by itself from it; the first member
// founds the cluster (epoch, CA, default namespace) through its own log, and a start that was cut short anywhere is taken up
// by the next. Any member serves every request; only the leader runs controllers, fenced by its term. Losing leadership,
// quorum or a peer never ends the process; a broken disk does. Whoever is told to end ends at once, and hands its leadership over.
// One process at a time works on a directory; a second is refused with the number of the first.
//
// A restore from a backup and a reset from a survivor begin a later history: a higher epoch, in a group with an identity of its own.
// A member serves nothing before it has asked those that it knows whether its own history is over, and ends where it is. Whatever is
// done to a directory while no member runs on it is done whole or not at all, and says before what it keeps and drops.
//
// A member's directory, all of it mode 0700 or tighter:
//
//	member.json       what the member is called and where it listens
//	ca.crt            the cluster's CA
//	member.crt, .key  its own certificate and key
//	sealing.key       the key that opens sealed records; every member has the same
//	raft.db           the log (consensus)
//	state             the contents (store/mvcc)
//	lock              held by the process that runs on the directory
//	admin.kubeconfig  written by the first member for whoever set it up
//	reset.new, .json  a reset under way: what it makes, and the note that it is whole
//	before-reset-N    raft.db and state as they were before the reset that began epoch N
//	restoring         a restore under way: what is here is its own
package hub
