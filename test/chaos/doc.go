// Package chaos runs a hub of three real member processes under faults and judges what its clients and watchers saw.
//
// Each member is drover-hub itself in a network namespace of its own. Every connection from one place to another goes through a
// cable of this package, so that it is known who speaks to whom and one direction can be held back alone; every file lies on a file
// system of this package, which can be slow, full or broken; the wall clock is the program's own with an offset, compiled in by an
// overlay of package time, and the log is cut after 4 MiB. But for these two what is judged is the product as it stands. A schedule
// drawn from a seed kills, pauses, cuts, fills, slows, steps clocks, and keeps a member away until the log has gone on without it.
//
// What clients did and what watchers were given is checked by test/history: linearizability by porcupine, each guarantee of a watch
// by name, sets that are read whole, revisions that never go back. Besides: a refused write leaves no trace, no revision is
// missing from a watch of everything, every member serves again once the faults have ended, and contents are equal by hash and
// by what lies on the disk.
//
// What it does not: replay. A seed gives the same schedule, not the same run: for that see test/sim. It needs root, /dev/fuse and ip.
package chaos
