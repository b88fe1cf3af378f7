// Package cluster runs the members of a group in one process, on real disks, over an in-memory network whose
// directions can be cut and held one by one.
//
// A [Cluster] is made with a factory for the state machine, so that the same faults can be put under any machine. A
// member can be stopped, killed (its files are left as a process that lost its power would have left them to the next
// one, save what the kernel had not written), started again, and its directory copied and put back.
//
// It promises order per direction, as a stream does, and loss only where a test asks for it; what streams carry may be held
// up or damaged by a test. It knows nothing of bandwidth: for that a [Proxy] stands before the port of a member on the real
// transport.
package cluster
