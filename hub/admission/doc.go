// Package admission is the mutating and the guarding step that every write of the operators' API passes, after
// defaults and before validation: it turns image tags into digests, keeps people out of fields that are not theirs,
// fills what needs a clock, and keeps new objects out of a namespace that is going.
//
// It promises that a tag becomes a digest once, in the same write as the spec that names it: a tag or repository that the
// registry says does not exist refuses the write and names the field; a registry that cannot be asked (unreachable, 5xx,
// 429) accepts the write with the condition ImageResolved=False, and nothing new starts until a later resolution.
//
// A workload that no pool of its namespace could ever allow is refused, once the whole set is planned, with the field, the pools and
// what they allow. Which devices may take it is decided where copies are placed. A named priority class becomes its value.
//
// It does not authenticate, does not check the schema and does not know RBAC: those stand before and after it.
package admission
