// Package agent is the device's half of Drover: it keeps running what the hub last told it, whatever happens to the hub,
// the link, the container runtime, the power or the clock.
//
// Core is a pure, stepped machine: an event and the present moment go in, effects come out. It starts no goroutine, reads no
// clock and touches no file, so a simulator can drive many of them from one queue. Agent is the thin loop around it that carries
// out the effects: it writes files, calls the container driver, hands reports to the link.
//
// It promises: a bundle is on disk, whole, before it is acted on; nothing older than what is held, and nothing of another
// cluster, is acted on; absence removes nothing, only a tombstone does, and a tombstone is reported as done only when neither
// the present nor the kept bundle holds what was deleted; a start without a hub runs the stored bundle with no network on the
// path; a lost bundle is rebuilt from what the runtime holds; the loop ends only with its context.
//
// It does not decide what runs where, it does not speak to the hub itself (agent/link does), and it knows no container
// runtime (agent/workload/ctrd does).
package agent
