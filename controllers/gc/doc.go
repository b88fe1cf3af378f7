// Package gc removes what nobody owns any more: dependents of deleted owners, the content of namespaces that are being
// deleted, and events beyond their bounds.
//
// It promises: an object goes only when every owner that it names was found to be gone by a linearizable read, by uid, so that
// a lagging cache or a new object of the same name deletes nothing; a Terminating namespace is emptied, then finished; of each
// object the newest 50 events stay, none longer than 7 days.
//
// Deletions that a user asked for with another propagation are the registry's business.
package gc
