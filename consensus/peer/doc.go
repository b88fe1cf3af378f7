// Package peer carries consensus frames and snapshots between members over mutual TLS.
//
// A connection has one direction: whoever has something to say dials. After the handshake the dialler sends the magic
// and one byte of kind:
//
//	frames    be32 length, bytes, again and again; length 0 is a sign of life
//	snapshot  be32 length, header; then be32 length, chunk ...; be32 0, be64 total, sha256; the answer is one byte,
//	          0 for accepted, else be16 length and the reason
//
// Promises: a frame's sender is the name in the certificate that the handshake proved; frames to one member arrive in
// the order they were sent, some may be missing; nothing is allocated for a length above its cap; every read and write
// has a deadline; a snapshot ends with io.EOF for its receiver only if length and checksum were right. Names are
// resolved and certificates fetched anew for each connection.
//
// Not promised: delivery. A member that does not keep up, or cannot be dialled, loses frames and is reported as
// unreachable. Which id belongs to which name is for consensus to check.
package peer
