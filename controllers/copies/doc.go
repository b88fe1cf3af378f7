// Package copies says what may be concluded about the copies of a workload from what the hub has observed: which devices
// they belong on, what they are called, and whether each counts as reached, ready, updated, failed or pending offline.
//
// It promises that all controllers judge by the same pure rules, and that only observation counts: a copy is not updated
// because it was told to be. It decides nothing and writes nothing.
package copies
