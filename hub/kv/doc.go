// Package kv is the store as one member serves it to other members and to tools that hold a member's certificate: proposals,
// reads at a known freshness and watches, many at a time over one TLS connection.
//
// It stands beside the operators' API on the same port, told apart by its protocol name in the TLS handshake ([Protocol]). The
// API speaks of objects, which are decoded, admitted, merged and rendered; kv speaks of keys and commands, and leaves those
// rules to whoever calls. That is why only hub members may: who can write here can write anything.
//
// What it promises: a Propose that returns a result was applied by the member that was asked, at most once for each call; a
// read that is not stale shows everything acknowledged before it; a watch yields batches in order, each once, until it says why
// it ends. Errors are the store's sentinels and the classes of api/fault, as if the store were here.
//
// What it does not: nothing is repeated. When the connection breaks, what was under way ends with fault.Timeout (a proposal,
// whose outcome is then unknown) or fault.Unavailable.
//
// A frame on the wire, in both directions:
//
//	be32     length of what follows
//	be64     number of the request, chosen by the client
//	byte     kind
//	bytes    body: CBOR, except for a proposal, which is the encoded command
//
// A client that does not read is cut off; what one connection may have under way is bounded on the server's side.
package kv
