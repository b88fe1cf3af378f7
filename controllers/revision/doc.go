// Package revision gives each template of a workload, once its images are known by digest, an immutable numbered revision.
//
// It promises: one WorkloadRevision for each distinct template with its digests, whatever the order in which they were applied;
// an old template that is applied again keeps its object and gets the next number; the workload's updatedRevision names the
// revision of the newest resolved spec; no more than revisionHistoryLimit old ones stay, and none goes that a copy or an
// unfinished rollout uses, or that is current or updated.
//
// A workload whose images are not resolved keeps the revision it has: nothing new starts. Undo is a write of the old template
// to the spec, by whoever wants it; this package finds that the revision exists.
package revision
