// Package side starts what benches compare, three members of a Drover hub and three of etcd, and drives both by the same load
// (package load) in turn. Which rows there are and what is aimed for is each bench's.
//
// Neither side has an unsafe option: every acknowledged write is synced by a majority. Our members run with everything on that they
// run with in a fleet. The driver of each side is a process of its own; a bench's own binary is the driver of ours (see [Driver]).
package side
