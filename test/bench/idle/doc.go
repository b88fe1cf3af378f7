// Command idle measures what hub members take while there is little to do: a single member, and three, each with 100 devices that run
// three workloads. It prints a table for people and, with JSON=FILE, the same as a list.
//
// Members are real processes as users start them. The devices are real agents with real links, identities and state files, all in
// this process, over fake container runtimes: nothing of them is in the figures. Figures are taken after everything has settled, as
// medians of three looks over a minute.
package main
