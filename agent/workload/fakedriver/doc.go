// Package fakedriver is a container runtime in memory, with scripts and kill points.
//
// A Runtime is the world that outlives an agent: containers, images, a boot. A Driver is one agent's connection to it; when
// its kill point comes up it panics with Killed, as SIGKILL would end the agent while the runtime lives on. The Runtime checks
// the invariants that no test may break: never two processes of one assignment from different specs at once, never two of one container.
package fakedriver
