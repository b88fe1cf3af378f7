// Package mvcc is the deterministic state machine of a hub member: a revisioned key-value store over one bbolt file,
// changed only by [Store.Apply] with the entries of the log, in order.
//
// What it promises:
//   - Equal entries give equal contents, whatever calls of Apply they were grouped into: [Store.Hash] is equal.
//   - Entries are applied in memory, over the file; a checkpoint brings the file up to them, effect and index in one synced
//     transaction. After a kill or a power cut at any point the file holds exactly the entries up to the newest checkpoint,
//     [Store.Synced], and the log, which is kept from there on, brings back the rest.
//   - A command is done whole or not at all, and nothing is read or watched inside it.
//   - Reads wait for no write and no disk that writes; no write waits for a watcher or a snapshot, nor for a checkpoint as long as
//     the disk is not far behind.
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
// Over the file lie at most two layers of pairs in memory: what a checkpoint is writing, and what was applied since it began. Readers
// see all three as one, at the state that they began with.
//
// A write appends to rev and journal, which bbolt does cheaply; the index from keys to revisions is a B-tree in memory,
// rebuilt from rev at open. The journal of one key is a chain: from the index (or head) to the newest record and from
// each record to the one before, so it costs a write nothing. Decoders of records ignore what follows the fields they
// know, and records are never rewritten: fields of a later build survive this one.
package mvcc
