// Package secretenv hands secret environment variables to a container's process through a pipe, so that their clear values are
// in no file, in no metadata of the runtime and in no argument.
//
// The container's first process is the agent's own binary in a hidden mode (Init). It opens a FIFO that is mounted into the
// container, reads a frame (length, checksum, variables), and execs the real command with the variables added. The agent
// delivers by opening the FIFO without blocking: it opens only while a reader waits, so "nobody waits" means that the variables
// were delivered before, and a delivery may be repeated after a crash. What a
// delivery that died in the middle left is passed over, and the reader waits for the next.
package secretenv
