// Package logfile keeps containers' output in files of bounded size and reads them.
//
// The runtime's shim appends to NAME.log and keeps the file open, so a file that is too large is copied to NAME.log.1 and
// truncated in place. At each start what the run before wrote becomes NAME.prev.log. A container has at most three files of
// Limit bytes each, plus what it writes between two rotations. What a container writes between copy and truncation is lost.
package logfile
