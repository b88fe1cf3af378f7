// Package metrics tells Prometheus how one hub member fares: what it proposed, synced, applied and served, how far its watchers
// and the other members lag, how full its store is, and which alarms stand.
//
// It has two halves. [Metrics] counts what happens, and is told by the parts through small hooks of their own: no part below
// knows Prometheus. [Metrics.Follow] adds what is true at the moment of a scrape, asked of [Sources]; nothing runs between
// scrapes. [Judge] turns the same state into alarms with a severity and a sentence for people.
//
// What it promises: every name is in docs/metrics.md with its unit and meaning, and the other way round; each label has few
// values, known in advance (members' names are the only ones that people choose, and members that left are dropped); no name
// of a device, object, key or person is ever a label; a scrape never waits for a disk, the log or another member, and takes the
// locks of the parts it asks for moments only.
//
// What it does not: it keeps no history and judges no trend. That is for whoever scrapes.
package metrics
