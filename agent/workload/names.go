package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/drover-fleet/drover/api/wire"
)

// RunHash names what runs: it changes exactly when the containers must be made anew. What can change under a running
// container is left out: the revision's name, the cause, the restart policy, the grace period, host ports and the readiness probe.
func RunHash(a wire.Assignment) (string, error) {
	a.CauseRev, a.Revision, a.Workload, a.Restart, a.GraceSecs = 0, "", "", 0, 0
	a.Containers = slices.Clone(a.Containers)
	for i := range a.Containers {
		a.Containers[i].Readiness = nil
		a.Containers[i].ImageName = ""
		a.Containers[i].HostPorts = nil // reserved at the hub; the process listens on what it likes
	}
	b, err := wire.Encode(a)
	if err != nil {
		return "", fmt.Errorf("hash of assignment %s/%s: %w", a.Namespace, a.Name, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// ContainerID is the container's name in the runtime. The same device, assignment, container and RunHash give the same name,
// so a retry finds what an earlier try made, and two copies of one thing cannot exist. At most 49 characters.
func ContainerID(device, uid, container, runHash string) string {
	h := sha256.New()
	for _, s := range []string{device, uid, container, runHash} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	readable := container
	if len(readable) > 24 {
		readable = readable[:24]
	}
	return readable + "-" + hex.EncodeToString(h.Sum(nil)[:12])
}

// Wanted is one assignment to run, with its hashes.
type Wanted struct {
	Assignment wire.Assignment
	SpecHash   wire.Hash
	RunHash    string
}

// NewWanted computes the RunHash.
func NewWanted(a wire.Assignment, specHash wire.Hash) (*Wanted, error) {
	run, err := RunHash(a)
	if err != nil {
		return nil, err
	}
	return &Wanted{Assignment: a, SpecHash: specHash, RunHash: run}, nil
}

// Object is namespace/name.
func (w *Wanted) Object() string { return w.Assignment.Namespace + "/" + w.Assignment.Name }

// ID is the name of container c in the runtime of device.
func (w *Wanted) ID(device, c string) string {
	return ContainerID(device, w.Assignment.UID, c, w.RunHash)
}
