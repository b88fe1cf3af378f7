// Package sched binds the unbound copies of workloads to devices: the loop around the pure decisions of package place.
//
// It promises: one pass serves everything that waits, from one snapshot that includes what the pass itself decided; bindings are
// written in batches, each under the precondition that the copy is still as it was read; a pass sees the bindings of the passes
// before it; a copy that found no device is tried again only when something changed that may let it, and says meanwhile, in one
// sentence, why; a copy whose device was deleted, or is no longer selected by its workload, is placed anew.
//
// A device that is offline, cordoned or tainted loses nothing. Everywhere-workloads are not its business: their copies are
// born bound.
package sched
