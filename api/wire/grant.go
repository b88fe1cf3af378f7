package wire

import (
	"fmt"

	"github.com/drover-fleet/drover/api/grant"
)

// checkGrant bounds a grant; what it allows is judged text by text, and what is no path or pattern allows nothing.
func checkGrant(g *grant.Grant) error {
	if g == nil {
		return nil
	}
	texts := func(what string, list []string) error {
		return first(checkCount(what, len(list), maxItems), each(list, func(s *string) error { return checkText(what, *s, maxText) }))
	}
	return first(checkName("pool", g.Pool), texts("namespaces of the pool", g.Namespaces), texts("host paths of the pool", g.HostPaths),
		texts("device files of the pool", g.Devices), checkCount("host ports of the pool", len(g.HostPorts), maxItems), each(g.HostPorts, checkPort))
}

// Needs lists the privileges that the assignment asks for, with fields as within the pod spec.
func (a *Assignment) Needs() []grant.Need {
	out := []grant.Need{{What: grant.HostNetwork, Field: "hostNetwork"}} // containers share the device's network
	for i, v := range a.Volumes {
		if v.HostPath != "" {
			out = append(out, grant.Need{What: grant.HostPath, Field: fmt.Sprintf("volumes[%d].hostPath.path", i), Path: v.HostPath})
		}
	}
	for i, c := range a.Containers {
		for j, p := range c.HostPorts {
			out = append(out, grant.Need{What: grant.HostPort, Field: fmt.Sprintf("containers[%d].ports[%d].hostPort", i, j), Port: p})
		}
		for j, d := range c.Devices {
			out = append(out, grant.Need{What: grant.DeviceFile, Field: fmt.Sprintf("containers[%d].devices[%d].path", i, j), Path: d.Path})
		}
		if c.Privileged {
			out = append(out, grant.Need{What: grant.Privileged, Field: fmt.Sprintf("containers[%d].securityContext.privileged", i)})
		}
	}
	return out
}
