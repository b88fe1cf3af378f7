// Package mvcc is the deterministic state machine of a hub member: a revisioned key-value store over one bbolt file,
// changed only by [Store.Apply] with the entries of the log, in order.
//
// What it promises:
//   - Equal entries give equal contents, whatever calls of Apply they were grouped into: [Store.Hash] is equal.
//   - An entry's effect and its index are saved in one transaction and synced before Apply returns. After a kill at any
//     point the file holds exactly the entries up to [Store.Applied].
//   - A command is done whole or not at all, and nothing is read or watched inside it.
//   - Reads wait for no write, save for the commit of a compaction, and no write waits for a watcher or a snapshot.
//   - A refused or malformed command is a result. An error of Apply is the disk's, and leaves the store as it was.
//
// What it does not: it orders nothing (that is the log's work), and compacts, trims and limits nothing that a command did not tell
// it to.
//
// Layout of the file. Numbers in keys are big-endian, so that bbolt's order is theirs:
//
//	meta      name                      -> applied index and term, level, epoch, revision, compacted, ordinal, hash,
//	                                       limits, logical bytes in use
//	rev       revision                  -> one version: key, value, create revision, version, place in its set
//	journal   revision                  -> one record of causes, with the key's revision before it
//	head      key                       -> newest journal revision of a key that the index has forgotten
//	request   window, hash of id, rev   -> (nothing) first revision of a command that the request wrote
//	cause     cause's revision, rev     -> (nothing) first revision of a command with that cause
//	writer    name                      -> last sequence applied, and what it came to
//
// A write appends to rev and journal, which bbolt does cheaply; the index from keys to revisions is a B-tree in memory,
// rebuilt from rev at open. The journal of one key is a chain: from the index (or head) to the newest record and from
// each record to the one before, so it costs a write nothing. Decoders of records ignore what follows the fields they
// know, and records are never rewritten: fields of a later build survive this one.
package mvcc
