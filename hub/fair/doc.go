// Package fair says who may hold how much of a member at once: seats for requests, shares of what lasts, and connections.
//
// Seats are divided among classes ([Class]) that never lend to each other: whatever people and programs do, devices and members find
// theirs, and so do an operator's operations. Within a class each flow (an identity; its lists and its other requests are two) has a queue, and free
// seats go round the queues by deficit round robin: a flow with a thousand requests waits behind itself. No flow holds more than half of a
// class, so that the first request of another finds a seat at once. A request takes as many seats as it costs; a list of many objects
// costs up to [MaxCost]. A place in a queue is kept for a bounded time; then, or when the queue is full, the answer is 429 with a
// Retry-After that is spread.
//
// What lasts (watches, logs, polls) takes no seat but a share of a total, at most a given number for each identity.
//
// Connections ([Listener]) are counted by source until they have shown who they are, and by identity from then on. One that has not
// finished its handshake gives way to a newer one when there are too many from its source or in all, oldest first: whoever means it is done in
// milliseconds.
//
// What is not promised: that a class without work helps another out, or that processor time is divided; a seat is a right to be worked on.
package fair
