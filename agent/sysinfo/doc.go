// Package sysinfo finds out what the board is: platform, model, memory, kernel features.
//
// Everything is read below a root directory that the caller gives, so that tests can feed it any board. What cannot be found out is left
// empty; nothing here fails, since an agent must come up on any board.
package sysinfo
