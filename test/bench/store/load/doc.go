// Package load drives one store with many clients and measures what they see. It knows no store: a [Dialer] gives it
// sessions, and both sides of the bench run this same code in a process of its own, told what to do by a [Spec] on
// standard input and answering a [Result] on standard output.
//
// It promises that every operation counted was answered without an error inside the measured time, that clients wait for
// each answer before they ask again (closed loop), and that latency is from the call to the answer, or for watches from the
// call of the put to the event. It does not promise that the load process is never the bottleneck: Result.CPU tells.
package load
