//go:build !plant

package workload

// A fault that a build with the tag "plant" can switch on, to show that test/sim finds it: a container is adopted for what is
// wanted although it was made from another spec. Here it is a constant, so that it costs nothing.
const plantAdoptAnySpec = false
