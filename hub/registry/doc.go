// Package registry turns the keys and bytes of the store into the objects of the API, and back. It is the in-process
// implementation of [client.Client]; client/remote, which reaches it over HTTPS, is the other.
//
// What it promises:
//   - Every write is planned on one revision and proposed with a precondition for each key that it read. What no
//     precondition of the caller's forbids is planned again after a conflict, so an update without resourceVersion is a
//     read-modify-write on the server.
//   - A write that changes nothing proposes nothing. All items of a transaction go into one command: all or none.
//   - Only one writer per field: updates leave status alone where the kind has one, status writes leave everything
//     else alone, and server-side apply refuses to take a field from another manager without force.
//   - Each key that a command changes carries a note for the journal of causes: verb, object, and a bounded diff in
//     which secret values stand as keyed hashes.
//   - Values of Secrets are sealed before they are proposed and opened only when read: no log, snapshot or backup of
//     the store holds them in clear.
//   - The removal of an assignment from a device leaves a Tombstone in the same command.
//   - Stored fields that this build does not know survive its updates.
//
// What it does not: it authorises nobody (hub/apiserver does), empties no namespace and deletes no dependents in the
// background (controllers do), and holds no state of its own beside the backend.
package registry
