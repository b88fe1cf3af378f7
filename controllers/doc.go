// Package controllers lists the loops that turn what is declared into what devices are told, and runs them while this hub
// member leads.
//
// It promises: no loop runs before its informers hold a state that was read after the leadership began; losing the leadership
// (the end of the context) stops all of them, and Run returns only when nothing that it started is left; every write goes
// through the client that was given, which carries the term and is refused once the term is over. There is no moment with two
// active controllers, because apply refuses the older one, not because of timing here.
//
// The scheduler is a runner of its own (package sched); the caller hands it to [Run], so that it shares the informers.
package controllers
