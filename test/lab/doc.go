// Package lab builds small fleets out of real parts on one Linux machine: hub members and agents as processes, each device
// in a network namespace of its own, a private containerd, a loopback registry, and links between them that can be cut.
// The demo, the end-to-end tests and the soak all stand on it.
//
// It promises to leave nothing behind after Down: no process, mount, container or network namespace. It kills only
// processes it started, checked by their start time.
package lab
