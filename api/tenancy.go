package api

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/grant"
)

// DevicePool says which namespaces may place workloads on the devices that it selects, and with which privileges. Cluster-scoped.
//
// One pool counts for a device: of those that select it the heaviest, of equals the first by name. A device that no pool selects is
// open to every namespace, with no privilege beyond the default, whether or not there are pools: making a first pool for one site
// must not take the other sites' devices from everybody. To close what no pool of a site selects, make a pool with all: true, a
// weight below the others, and the namespaces that may (or none). When a pool stops allowing a copy, the copy goes: a pool is a
// boundary, not a preference.
type DevicePool struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta       `json:"metadata"`
	Spec     DevicePoolSpec   `json:"spec"`
	Status   DevicePoolStatus `json:"status,omitzero"`
}

// DevicePoolSpec is the operator's.
type DevicePoolSpec struct {
	Selector   *LabelSelector `json:"selector,omitempty"` // over Device labels; empty selects nothing
	All        bool           `json:"all,omitempty"`      // every device; excludes Selector
	Namespaces []string       `json:"namespaces"`         // that may use the devices; "*" = every one, empty = none
	Allow      Privileges     `json:"allow,omitzero"`
	Weight     int32          `json:"weight,omitempty"` // -1,000,000 to 1,000,000
}

// Privileges are what a workload may do on a device beyond the default.
type Privileges struct {
	// HostNetwork is true by default, since every container of this release runs on the device's network: false refuses every
	// workload. HostPorts guards the ports that containers declare; on the device's network the kernel holds nobody to that.
	HostNetwork *bool    `json:"hostNetwork,omitempty"`
	HostPorts   []int32  `json:"hostPorts,omitempty"`  // ports of the device that a workload may take
	HostPaths   []string `json:"hostPaths,omitempty"`  // a path and what lies below it
	Devices     []string `json:"devices,omitempty"`    // device files, as globs: /dev/video*
	Privileged  bool     `json:"privileged,omitempty"` // whether containers may be privileged
}

// DevicePoolStatus is the pool controller's.
type DevicePoolStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	Devices            int32       `json:"devices,omitempty"`    // for which this pool counts
	Selected           int32       `json:"selected,omitempty"`   // that it selects, whichever pool counts
	Conditions         []Condition `json:"conditions,omitempty"` // Overlap
}

// ResourceQuota bounds what a namespace may hold, counted exactly in the write that adds.
type ResourceQuota struct {
	TypeMeta `json:",inline"`
	Metadata ObjectMeta          `json:"metadata"`
	Spec     ResourceQuotaSpec   `json:"spec"`
	Status   ResourceQuotaStatus `json:"status,omitzero"`
}

// ResourceQuotaSpec gives the limits by name: count/PLURAL[.GROUP], configmaps, secrets, requests.cpu, limits.memory and so on.
type ResourceQuotaSpec struct {
	Hard ResourceList `json:"hard,omitempty"` // limits by name
}

// ResourceQuotaStatus is the limits with what is used of them, at the revision of the last change.
type ResourceQuotaStatus struct {
	Hard ResourceList `json:"hard,omitempty"`
	Used ResourceList `json:"used,omitempty"`
}

// PriorityClass names how important copies are against others, as in Kubernetes. Cluster-scoped.
type PriorityClass struct {
	TypeMeta      `json:",inline"`
	Metadata      ObjectMeta `json:"metadata"`
	Value         int32      `json:"value"`                   // the greater goes first; -1,000,000,000 to 1,000,000,000
	GlobalDefault bool       `json:"globalDefault,omitempty"` // of workloads that name no class; at most one class
	Description   string     `json:"description,omitempty"`   // for people
}

// Names of the priority classes that are kept for the hub begin so.
const SystemPriorityPrefix = "system-"

// Range of PriorityClass.Value, as in Kubernetes.
const (
	MinPriority = -1_000_000_000
	MaxPriority = 1_000_000_000
)

// Grant is what the pool allows on a device for which it counts.
func (o *DevicePool) Grant() grant.Grant {
	a := o.Spec.Allow
	return grant.Grant{
		Pool: o.Metadata.Name, Namespaces: o.Spec.Namespaces, NoHostNetwork: a.HostNetwork != nil && !*a.HostNetwork,
		HostPorts: a.HostPorts, HostPaths: a.HostPaths, Devices: a.Devices, Privileged: a.Privileged,
	}
}

// Pools finds the pool that counts for a device. Make it by [NewPools]; the zero value has none.
type Pools struct {
	list []pool // those that count before others first
}

type pool struct {
	*DevicePool
	selector Selector
	grant    grant.Grant
}

// NewPools compiles the pools. One whose selector does not compile, which validation refuses, selects nothing; one on its way out
// counts until it is gone.
func NewPools(all []*DevicePool) Pools {
	var p Pools
	for _, o := range all {
		s := Everything()
		if !o.Spec.All {
			var err error
			if s, err = o.Spec.Selector.Selector(); err != nil {
				s = Nothing()
			}
		}
		p.list = append(p.list, pool{o, s, o.Grant()})
	}
	slices.SortFunc(p.list, func(a, b pool) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), strings.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	return p
}

// Of is the pool that counts for a device with these labels; nil when none selects it.
func (p Pools) Of(labels map[string]string) *DevicePool {
	if i := p.index(labels); i >= 0 {
		return p.list[i].DevicePool
	}
	return nil
}

// Grant is what is allowed on a device with these labels.
func (p Pools) Grant(labels map[string]string) grant.Grant {
	if i := p.index(labels); i >= 0 {
		return p.list[i].grant
	}
	return grant.Grant{}
}

func (p Pools) index(labels map[string]string) int {
	return slices.IndexFunc(p.list, func(x pool) bool { return x.selector.Matches(labels) })
}

// Selecting lists every pool that selects a device with these labels; the first one counts.
func (p Pools) Selecting(labels map[string]string) []*DevicePool {
	var out []*DevicePool
	for _, x := range p.list {
		if x.selector.Matches(labels) {
			out = append(out, x.DevicePool)
		}
	}
	return out
}

// Len is the number of pools.
func (p Pools) Len() int { return len(p.list) }

// Grants lists what each pool allows, in the order in which pools count.
func (p Pools) Grants() []grant.Grant {
	out := make([]grant.Grant, len(p.list))
	for i, x := range p.list {
		out[i] = x.grant
	}
	return out
}

// Needs lists the privileges that a template asks for, with fields as within the pod spec.
func (s *PodSpec) Needs() []grant.Need {
	out := []grant.Need{{What: grant.HostNetwork, Field: "hostNetwork"}} // of every template, in this release
	for i, v := range s.Volumes {
		if v.HostPath != nil {
			out = append(out, grant.Need{What: grant.HostPath, Field: fmt.Sprintf("volumes[%d].hostPath.path", i), Path: v.HostPath.Path})
		}
	}
	for i, c := range s.Containers {
		at := fmt.Sprintf("containers[%d]", i)
		for j, p := range c.Ports {
			if p.HostPort != 0 {
				out = append(out, grant.Need{What: grant.HostPort, Field: fmt.Sprintf("%s.ports[%d].hostPort", at, j), Port: p.HostPort})
			}
		}
		for j, d := range c.Devices {
			out = append(out, grant.Need{What: grant.DeviceFile, Field: fmt.Sprintf("%s.devices[%d].path", at, j), Path: d.Path})
		}
		if c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged) {
			out = append(out, grant.Need{What: grant.Privileged, Field: at + ".securityContext.privileged"})
		}
	}
	return out
}

// HostPorts lists the ports of the device that a template reserves, each as "80/TCP".
func (s *PodSpec) HostPorts() []string {
	var out []string
	for _, c := range s.Containers {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				out = append(out, fmt.Sprintf("%d/%s", p.HostPort, p.Protocol))
			}
		}
	}
	return out
}

const (
	maxPoolItems = 256
	maxWeight    = 1_000_000
)

func checkPool(s *DevicePoolSpec) []FieldError {
	var errs []FieldError
	switch {
	case s.All && !s.Selector.IsEmpty():
		errs = append(errs, FieldError{"spec", "has both all: true and a selector; keep one"})
	case !s.All && s.Selector.IsEmpty():
		errs = append(errs, FieldError{"spec.selector", "selects nothing; write matchLabels, or all: true for every device"})
	case !s.All:
		errs = append(errs, s.Selector.check("spec.selector")...)
	}
	errs = append(errs, limitCount("spec.namespaces", len(s.Namespaces), maxPoolItems)...)
	seen := map[string]int{}
	for i, ns := range s.Namespaces {
		errs = append(errs, twice("spec.namespaces", "", ns, i, seen)...)
		if ns != grant.Every {
			errs = appendErr(errs, "spec.namespaces"+index(i), CheckDNSLabel(ns))
		}
	}
	errs = append(errs, rangeError("spec.weight", int64(s.Weight), -maxWeight, maxWeight)...)
	return append(errs, checkPrivileges("spec.allow", &s.Allow)...)
}

func checkPrivileges(at string, p *Privileges) []FieldError {
	errs := join(limitCount(at+".hostPorts", len(p.HostPorts), maxPoolItems), limitCount(at+".hostPaths", len(p.HostPaths), maxPoolItems),
		limitCount(at+".devices", len(p.Devices), maxPoolItems))
	for i, n := range p.HostPorts {
		errs = append(errs, rangeError(at+".hostPorts"+index(i), int64(n), 1, 65535)...)
	}
	for i, s := range p.HostPaths {
		errs = appendErr(errs, at+".hostPaths"+index(i), checkPath(s))
	}
	for i, s := range p.Devices {
		errs = appendErr(errs, at+".devices"+index(i), checkDeviceGlob(s))
	}
	return errs
}

// checkDeviceGlob wants a pattern of path.Match below /dev.
func checkDeviceGlob(s string) error {
	if err := checkDevicePath(s); err != nil {
		return err
	}
	if _, err := path.Match(s, ""); err != nil {
		return fmt.Errorf("%q is not a pattern: want *, ? and [a-z] as in a shell", clip(s))
	}
	return nil
}

func checkDevicePath(s string) error {
	if err := checkPath(s); err != nil {
		return err
	}
	if clean := path.Clean(s); !strings.HasPrefix(clean, "/dev/") || clean != s {
		return fmt.Errorf("%q is not a path below /dev, written without detours", clip(s))
	}
	return nil
}

func checkPriorityClass(o *PriorityClass) []FieldError {
	errs := rangeError("value", int64(o.Value), MinPriority, MaxPriority)
	if strings.HasPrefix(o.Metadata.Name, SystemPriorityPrefix) {
		errs = append(errs, FieldError{"metadata.name", "names that begin with " + SystemPriorityPrefix + " are kept for the hub"})
	}
	return errs
}
