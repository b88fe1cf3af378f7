// Package replica is one hub member's copy of the state: the glue of the log (consensus) and the state machine (store/mvcc). The
// rest of the hub proposes commands, waits for barriers, reads and watches through it.
//
// What it promises: a proposed command is applied at most once however often it has to be sent; when Propose returns a result, this
// member has applied it; after Barrier, this member's reads show everything acknowledged before the call. Errors are of the classes
// of api/fault.
//
// What it does not: it knows no objects (hub/registry does), and a Propose that ended with fault.Timeout may still take effect later.
package replica
