// Package report is what all benches share: samples become figures, medians beside their aims, in one table for people and one list
// for programs; and what a process holds and has used, as /proc tells it.
package report
