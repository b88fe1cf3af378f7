// Package hub is one member of the control plane: it puts the parts below it together and runs them.
//
// What it promises: a directory belongs to one member for life; a member restarts by itself from it; the first member
// founds the cluster (epoch, CA, default namespace) through its own log, and a start that was cut short anywhere is taken up
// by the next. Any member serves every request; only the leader runs controllers, fenced by its term. Losing leadership,
// quorum or a peer never ends the process; a broken disk does. Whoever is told to end ends at once, and hands its leadership over.
// One process at a time works on a directory; a second is refused with the number of the first.
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
package hub
