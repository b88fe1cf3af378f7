// Package peer carries consensus frames and streams between members over mutual TLS.
//
// Whoever has something to say dials. After the handshake the dialler sends the magic and one byte of kind:
//
//	frames  be32 length, bytes, again and again; length 0 is a sign of life; nothing comes back
//	stream  bytes in both directions, until one side closes
//
// Promises: a frame's sender is the name in the certificate that the handshake proved; frames to one member arrive in
// the order they were sent, some may be missing; nothing is allocated for a length above its cap; every read and write
// of frames has a deadline. Names are resolved and certificates fetched anew for each connection.
//
// Not promised: delivery; time-outs of streams, which are for those who use them. A member that does not keep up, or cannot be dialled, loses frames and is reported as
// unreachable. Which id belongs to which name is for consensus to check.
package peer
