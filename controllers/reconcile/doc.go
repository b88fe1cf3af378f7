// Package reconcile is the level-triggered runtime of the controllers: a queue of keys, workers, back-off.
//
// It promises: a key that was added is reconciled after it was added; one key is never in two workers at once; a key that is
// added many times while it waits is reconciled once; a key that fails comes again after a back-off from 5 ms to 1000 s with
// full jitter, and its successes reset that; each request carries the newest revision that woke its key, which its writes
// hand on as their cause; a reconcile sees what earlier ones of this process wrote ([Deps.Write] waits for the informers).
//
// It does not promise that every change is seen one by one, nor an order among keys. A loop decides from what it observes
// now, never from what it was told happened.
package reconcile
