// Package backup is the file that a hub's state is saved to, the same on its way from a member as on a disk:
//
//	magic line
//	header: one line of JSON
//	chunks: length (4 bytes, big-endian, at most 64 KiB), then so many bytes of the state's own snapshot; length 0 ends them
//	SHA-256 of all before
//
// It promises that whoever reads to the end without an error has what was written, whole. It does not know what the state holds, and
// keeps no secret: those in the state are sealed, by a key that is not in here.
package backup
