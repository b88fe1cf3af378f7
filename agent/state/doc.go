// Package state is what survives a power cut on a device: files that are whole or not there, a bounded journal of what
// happened, and a ledger of the commands that were carried out.
//
// It promises: a File that was saved is read back as it was saved, or as the save before it, or not at all, whatever was
// torn, truncated, zero-filled or half renamed in between; a bad file never stops the agent, it is set aside under a bounded
// number of names. It writes only when the content changes, since flash wears.
//
// It does not know what the files hold: the types are their owner's. It does not lock: one agent owns a directory.
package state
