// Package auditlog is the form of a hub member's audit: records of one JSON line each, numbered without gaps and chained by hashes, in
// files that follow each other. hub/audit writes them; the command line reads and verifies them, also from a copy of the directory.
//
// It promises that [Verify] finds a line that was changed, left out or put in, and a file missing between two others. It does not
// promise to find that the newest lines were cut off, or that everything was written anew: whoever may write the files may do that. An
// outside eye on the number of the newest record (the metric drover_audit_sequence) shows it.
package auditlog
