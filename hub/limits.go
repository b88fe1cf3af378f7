package hub

import "github.com/drover-fleet/drover/store"

// LimitsOf bounds contents and events, in bytes, with the marks at percents of each: writes that add are refused from high on and taken
// again below low.
func LimitsOf(data, events uint64, high, low int) store.Limits {
	quota := func(most uint64) store.Quota {
		return store.Quota{Max: most, High: most / 100 * uint64(high), Low: most / 100 * uint64(low)}
	}
	return store.Limits{Data: quota(data), Events: quota(events), EventPrefix: "events/"}
}
