// Package watch is the ordered fan-out of a store's events to its watchers.
//
// A watcher begins behind: its own goroutine, inside Next, reads history from the [Source] page by page, outside the write
// path. Once it has read everything published it goes live: [Hub.Publish] puts what it wants into its buffer. The step
// from one to the other is taken under the hub's lock, so nothing falls between and nothing comes twice.
//
// What it promises: batches in revision order, each exactly once, never a part of one; a publisher never waits for a
// watcher; a live watcher holds at most its buffer and is then ended with store.ErrSlow; a watcher of one key, or of a
// prefix, costs nothing for writes elsewhere.
//
// What it does not: it starts no goroutine and owns no clock. When progress marks are due is for the owner of the store
// to say. A watcher that nobody asks for its Next stays behind and costs nothing but its entry.
package watch
