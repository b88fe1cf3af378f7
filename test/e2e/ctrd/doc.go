// Package ctrd shows on a real containerd what agent/workload/ctrd promises: idempotent calls, adoption, exit codes, secrets in
// no file, images found without a network, and never two copies wherever the agent is killed. It needs root, containerd
// and runc, and runs a daemon of its own.
package ctrd
