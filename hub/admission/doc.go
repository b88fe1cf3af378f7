// Package admission is the mutating and the guarding step that every write of the operators' API passes, after
// defaults and before validation: it turns image tags into digests, keeps people out of fields that are not theirs,
// fills what needs a clock, and keeps new objects out of a namespace that is going.
//
// It promises that a tag becomes a digest once, in the same write as the spec that names it: a tag or repository that the
// registry says does not exist refuses the write and names the field; a registry that cannot be asked (unreachable, 5xx,
// 429) accepts the write with the condition ImageResolved=False, and nothing new starts until a later resolution.
//
// It does not authenticate, does not check the schema and does not know RBAC: those stand before and after it.
package admission
