// Package retry is the one back-off policy: exponential, capped, with full jitter, reset on success, obedient to
// Retry-After. The rate of attempts is capped, never their number.
//
// It has no clock and no random source of its own: both are given, so that a simulator replays it. Only [Do] waits, on the
// runtime's clock (which a synctest bubble replaces).
package retry
