// Package place decides which devices the unbound copies of a workload go to. It is pure: a snapshot and a question in,
// choices with their reasons out; no clock, no random number, no I/O.
//
// It promises: the same snapshot and question give the same answer; no chosen device is refused by a filter, counting what
// earlier choices of the same snapshot took; copies go where fewest of their workload are, then where most room is left; and
// when copies remain, one sentence tells why each device was refused, the most frequent reason first.
//
// All copies of a workload are decided in one pass. Devices that are alike (same labels, taints and state) form a class, and
// filters that look at nothing else run once a class.
package place
