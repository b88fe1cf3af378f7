// Package ctrdtest runs a containerd of its own, for tests and the demo, beside any other on the machine: its root, state and
// socket lie in a directory that the caller owns. It needs root, containerd and runc.
//
// Stop ends the daemon; End also ends every container of it and takes its mounts away. Neither touches another daemon's.
package ctrdtest
