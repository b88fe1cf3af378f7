// Package arch holds the rules of the house as tests: which package may import which, that every package says what it is
// for, what the agent links and how large it is. It promises that a change against DESIGN's ladder fails the build.
package arch
