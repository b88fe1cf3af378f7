package copies

// ReasonNeverConnected is the reason of Connected=False of a device that no hub member ever heard of.
const ReasonNeverConnected = "NeverConnected"

// Types of conditions that controllers read or write.
const (
	CondConnected          = "Connected"          // Device: presence
	CondReady              = "Ready"              // Device: presence
	CondRuntimeUnavailable = "RuntimeUnavailable" // Device: the gateway, on behalf of the device
	CondImageResolved      = "ImageResolved"      // Workload: admission and images
	CondAvailable          = "Available"          // Workload: workload
	CondProgressing        = "Progressing"        // Workload: rollout
	CondPlaced             = "Placed"             // Workload: workload; there only while selected devices get no copy
	CondScheduled          = "Scheduled"          // Assignment: sched
)
