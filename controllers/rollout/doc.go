// Package rollout moves the copies of a workload to its updated revision, in one wave, within a budget, and judges the move.
//
// It promises, whatever fails and however often a new revision is pushed:
//   - No more copies are made unavailable at once than maxUnavailable, counted over all revisions of the workload. Copies that
//     are down already move first and cost nothing; those that serve but were not ready for minReadySeconds come next, within
//     the budget.
//   - A copy counts as updated only when its device reported it ready on the revision for minReadySeconds.
//   - Devices that were away before they were told never block: they take the newest revision when they return. A device that
//     went dark after it may have taken the update counts as failed, and against the budget.
//   - A rollout that makes no step forward for progressDeadline by the hub's clock has failed. A failed rollout moves nothing
//     more until its spec changes; late success completes it.
//   - A newer revision supersedes an unfinished rollout, and says so in its cause.
//
// Everything is computed anew from observation at each pass; nothing is remembered but what stands in status.
package rollout
