package gateway

import (
	"maps"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

// Conditions of a Device that are not the gateway's: it keeps them as they are, whatever the device says.
const (
	conditionConnected = "Connected"
	conditionReady     = "Ready"
	// ConditionAheadOfHub is True while the device holds what this history of the hub never said; it is left alone.
	ConditionAheadOfHub = "AheadOfHub"
	// ConditionConfigMissing is True on an Assignment that cannot be resolved; the device keeps what it has of it.
	ConditionConfigMissing = "ConfigMissing"
	// ConditionPoolRefuses is True on an Assignment that the pool of its device does not allow; the device is not told of it. Controllers
	// take it away, or off the device.
	ConditionPoolRefuses = "PoolRefuses"
)

const (
	clockTrustedWithin = 2 * time.Minute // a device's clock this near to the hub's is trusted
	clockNoise         = 5 * time.Second // smaller changes of the offset are not written
)

// planHello is the device's status after a Hello. It is pure; d is not changed.
func planHello(d *api.Device, h wire.Hello, now time.Time) *api.Device {
	n := api.Copy(d)
	if s := int64(h.Session); s > n.Status.Identity.Session {
		n.Status.Identity.Session, n.Status.Identity.Sequence = s, 0
	}
	planFacts(n, h.Facts, h.AgentVersion)
	if n.Status.Facts.BootID == "" || h.BootID != "" {
		n.Status.Facts.BootID = h.BootID
	}
	planHeld(n, h.Held, h.BundleHash)
	planClock(n, h.WallTime, now)
	return n
}

func planFacts(n *api.Device, f wire.Facts, version string) {
	if version == "" {
		version = f.AgentVersion
	}
	n.Status.Facts = api.DeviceFacts{
		Platform: f.Platform, Model: f.Model, Kernel: f.Kernel, OSImage: f.OSImage, AgentVersion: version, Runtime: f.Runtime,
		BootID: f.BootID, Cgroup: f.Cgroup, MemoryCgroup: f.MemoryCgroup, Hostname: f.Hostname,
	}
	if f.Serial != "" {
		n.Status.Identity.Serial = f.Serial
	}
	capacity := api.ResourceList{}
	put := func(key string, n uint64) {
		if n == 0 {
			return
		}
		if q, err := api.ParseQuantity(strconv.FormatUint(n, 10)); err == nil {
			capacity[key] = q
		}
	}
	put("cpu", uint64(f.CPUs))
	put("memory", f.Memory)
	put("storage", f.Storage)
	if len(capacity) > 0 {
		n.Status.Capacity = capacity
		n.Status.Allocatable = maps.Clone(capacity)
	}
}

func planHeld(n *api.Device, held wire.Position, hash wire.Hash) {
	if held.IsZero() {
		n.Status.Bundle.Held = api.BundleRef{}
		return
	}
	n.Status.Bundle.Held = api.BundleRef{Revision: strconv.FormatUint(held.Revision, 10), Hash: hash.String()}
}

func planClock(n *api.Device, wall int64, now time.Time) {
	if wall == 0 {
		return
	}
	offset := time.Unix(0, wall).Sub(now).Truncate(time.Second)
	trusted := offset.Abs() <= clockTrustedWithin
	if (offset-n.Status.Clock.Offset.Duration).Abs() <= clockNoise && trusted == n.Status.Clock.Trusted {
		return
	}
	n.Status.Clock = api.DeviceClock{Offset: api.Duration{Duration: offset}, Trusted: trusted}
}
