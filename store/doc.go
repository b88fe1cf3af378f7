// Package store is the vocabulary of Drover's revisioned key-value model: revisions, commands, results,
// reads and events, and the small interfaces through which the rest of the system uses them.
//
// The package promises nothing about where the data lives. [store/mvcc] is the deterministic state machine
// over bbolt, [store/watch] the ordered fan-out of its events. Neither knows of api or of consensus: keys and
// values are opaque here, and a command is a byte string to whoever orders it.
//
// Determinism: nothing in store or below it reads a clock, a random source or the order of a map. Times and
// identities come with the command, chosen by its proposer.
package store
