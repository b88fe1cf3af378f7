// Package gateway is the hub's end of the device protocol, whatever the transport: sessions, what each device should run,
// what devices report, presence, commands and streams. Transports (httpgw) authenticate, decode and encode; every rule is here.
//
// Promises:
//
//   - A device reaches its own objects only: each call carries the Peer that the transport authenticated, and is checked against
//     the key that the hub signed for that name.
//   - Desired comes from a view that is not older than what the device holds and not older than what any member decided for
//     the device before (see position.go); a member whose view is older says so and decides nothing.
//   - A report that is not higher by (session, sequence) than what was written changes nothing. A report that tells nothing new
//     writes nothing. Heartbeats are never written.
//   - What the hub cannot resolve is left out, and said in a condition; a device keeps what it has, since absence removes nothing.
//   - Secrets leave only sealed to the key of a device whose bundle needs them.
//   - A token of a service account is given only for a file that the present template of an assignment bound to the device asks for.
//
// Not promised: that a link seen here is the only one of its device (the newest session wins), and that a log stream survives
// the link that carries it.
package gateway
