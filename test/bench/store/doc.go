// Command store measures three members of a Drover hub beside three members of etcd, in the same run, on the same disk, over
// loopback with mutual TLS. It prints a table for people and, with JSON=FILE, the same as a list; with QUICK=1 it takes
// shorter looks, and with -profile DIR (PROFILE=DIR make bench-store) it leaves cpu, block, mutex and heap profiles of our members under
// a load of puts there, with their tables. A row that fails leaves the others be; the exit code tells. ARCHITECTURE.md's rules for benches apply: every figure is the median of at least three runs, taken in turn
// with the peer.
//
// Neither side has an unsafe option: every acknowledged write is synced by a majority. Both are driven by the same code
// ([load.Run]) in a process of its own, with the same number of connections and clients, spread over all members. Our
// members run with everything on that they run with in a fleet: journal, fencing, de-duplication, audit log.
//
// The machine is what it is: other work on it makes all figures worse. The load average is printed before and after.
package main
