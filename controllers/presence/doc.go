// Package presence judges the links of devices from what the hub members heard of them, and writes the conditions Connected
// and Ready of Device when, and only when, they change.
//
// It promises: ages are monotonic, so clock steps accuse nobody; a device goes from Connected to Late to Offline only after a
// full grace since this leader began to judge, and since this hub last ran in time itself; silence is dated from the last
// contact, not from when it was noticed; only hearing of a device makes it Connected. It judges the link and nothing else:
// what runs on a device that is Offline is neither stopped nor moved.
package presence
