// Package cache keeps the objects of a kind in memory by list and watch, with indexes, and tells handlers of each change.
//
// It promises: handlers hear each change exactly once and in the order of revisions; an object that a handler was told of is
// what readers find, or something newer; after an outage the difference is told as changes, never as "everything again"; Run
// returns only when nothing that it started is left. Objects are shared by all readers and are immutable: copy before change.
//
// It does not promise that a reader sees the newest state, only one that was true. Who must see its own write waits with
// [Informer.WaitFor]. Handlers run one after the other in the informer's goroutine: they hand work on and return.
package cache
