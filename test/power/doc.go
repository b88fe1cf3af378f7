// Package power pulls the plug on files: raft.db and the state file live on a file system of our own, which forgets at a cut what
// was never synced, as a disk with a cache does.
//
// What a cut may leave of a file is what its last sync held and any part of the writes since: each whole, torn at a sector, or
// lost, in whatever order. Of a directory it leaves a beginning of what was made, renamed and removed since its last sync. A write
// that was under way may be on the disk though nobody was told so.
//
// The file system is served over FUSE by a process of its own: a program that maps a file which it serves itself can stop for
// ever. Everything is chosen by a seed, which every failure prints.
//
// What it does not show: a disk that lies about syncs, sectors that rot, and a cut of two files at one moment.
package power
