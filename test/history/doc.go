// Package history judges what clients, watchers, members and devices saw in a run by named guarantees, whoever recorded it: the
// simulator, a cluster in one process, or real binaries.
//
// A record is made by one side only and says no more than that side knew: an operation whose outcome its client never learned is
// recorded as such. The [Ledger] is what the log made of the commands; it is taken where members apply them, and it is itself
// judged, since every member must come to the same.
//
// Each check returns the violations of one guarantee, in words that name keys, revisions and times; none means that it held.
package history
