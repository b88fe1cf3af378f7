// Package audit keeps a hub member's audit: who asked for what, from where, and what came of it. client/auditlog has the form of the
// records and their chain.
//
// What is on record. Every write has a receipt, which is on disk before the write is tried, and an outcome. Every refusal (401, 403,
// 413, 429 and the like) has an outcome, and so have forced operations, impersonation, and what devices do that changes something:
// enrollment, a first hello, reports, and requests of theirs that are refused. Reads are on record where the [Policy] says so; the built-in
// one names reads of Secrets, explanations, logs, backups and of the audit itself. A policy can silence writes that go well and
// ask for bodies; it cannot silence refusals, forced operations or impersonation. What the hub's own loops write is not here but in the
// store's journal of causes, which leads back to the request ids here.
//
// Promises. Records of one member are numbered from 1 without gaps and chained by hashes, across restarts and rotation. A start cuts off a last
// line that is not whole and says so in its first record; it writes an outcome "ended" for each receipt without one. Receipts that wait
// together are synced together. Bodies of what holds secrets are never kept, and no record is ever printed elsewhere instead.
//
// When the disk is full or fails. Outcomes of what is under way go into room that was reserved. From then on nothing new can be put on record:
// by default ([Refuse]) writes through the API, deletes and operations on the hub included, and enrollments answer 503 with the reason audit,
// until a receipt can be written again; reads go on, and so do what devices report, controllers, compaction by the hub itself and consensus.
// With [RecordGap] writes go on. Either way the first record afterwards says from when to when records are missing, how many and why.
//
// Not promised: that outcomes, unlike receipts, survive a power cut of the moment; they are written at once and synced with the next receipt, at
// rotation, and at the end. That a flood of refusals is kept one by one: past [floodRecords] of an actor in ten seconds they are counted, and
// the count is on record.
package audit
