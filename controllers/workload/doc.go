// Package workload keeps the set of a workload's copies what its placement says, and counts them.
//
// It promises: everywhere-workloads have one Assignment for each selected device, born bound; replicated ones have N unbound
// Assignments by ordinal, which the scheduler binds; names and uids stay across revisions. A device that is offline, not
// ready, cordoned or tainted later loses nothing: a copy goes only when its workload, its device or the selection does.
//
// It does not move copies between revisions (package rollout), nor delete what belongs to a deleted workload (package gc).
package workload
