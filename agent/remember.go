package agent

import (
	"github.com/drover-fleet/drover/agent/state"
	"github.com/drover-fleet/drover/agent/workload"
)

// MaxRuntime bounds what the agent remembers, on disk.
const MaxRuntime = 4 << 20

// Runtime is what the agent remembers besides the bundle. It is written when it changes. Losing it costs counts and back-offs,
// never a container.
type Runtime struct {
	Assignments map[string]*workload.Memory `cbor:"1,keyasint,omitempty"` // by UID
	Journal     state.Journal               `cbor:"2,keyasint"`
	Done        state.Ledger                `cbor:"3,keyasint"` // commands
	BootID      string                      `cbor:"4,keyasint,omitempty"`
}

func (r *Runtime) memory(uid string) *workload.Memory {
	if r.Assignments == nil {
		r.Assignments = map[string]*workload.Memory{}
	}
	m := r.Assignments[uid]
	if m == nil {
		m = &workload.Memory{}
		r.Assignments[uid] = m
	}
	return m
}
