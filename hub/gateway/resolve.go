package gateway

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
)

// resolver turns one assignment into its body: every value written out, secrets as references.
type resolver struct {
	in         Inputs
	assignment *api.Assignment
	keyed      KeyedHash
	secrets    map[string][]byte // values by secretKey
	newest     uint64            // highest revision of what was read
}

func (r *resolver) assignmentBody() (wire.Assignment, []wire.SecretRef, error) {
	a := r.assignment
	rev, ok := r.in.Revisions[a.Metadata.Namespace+"/"+a.Spec.Revision]
	if !ok {
		return wire.Assignment{}, nil, fmt.Errorf("revision %s does not exist (yet)", a.Spec.Revision)
	}
	spec := rev.Spec.Template.Spec
	body := wire.Assignment{
		UID: a.Metadata.UID, Namespace: a.Metadata.Namespace, Name: a.Metadata.Name,
		Workload: a.Spec.Workload, Revision: a.Spec.Revision,
		Restart: restartOf(spec.RestartPolicy), GraceSecs: 30,
	}
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		body.GraceSecs = uint32(min(max(*g, 0), 3600))
	}
	for _, v := range spec.Volumes {
		w := wire.Volume{Name: v.Name}
		if v.HostPath != nil {
			w.HostPath, w.HostType = v.HostPath.Path, v.HostPath.Type
		}
		if v.Projected != nil {
			w.Tokens, w.FileMode = tokenFiles(v.Projected)
			body.Account = spec.ServiceAccountName
		}
		body.Volumes = append(body.Volumes, w)
	}
	refs := map[string]wire.SecretRef{}
	for _, c := range spec.Containers {
		out, err := r.container(rev, c, refs)
		if err != nil {
			return wire.Assignment{}, nil, fmt.Errorf("container %s: %w", c.Name, err)
		}
		body.Containers = append(body.Containers, out)
	}
	return body, sortedRefs(refs), nil
}

func sortedRefs(refs map[string]wire.SecretRef) []wire.SecretRef {
	var out []wire.SecretRef
	for _, s := range refs {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b wire.SecretRef) int { return strings.Compare(secretKey(a), secretKey(b)) })
	return out
}

func restartOf(policy string) wire.Restart {
	switch policy {
	case "OnFailure":
		return wire.RestartOnFailure
	case "Never":
		return wire.RestartNever
	}
	return wire.RestartAlways
}

func (r *resolver) container(rev *api.WorkloadRevision, c api.Container, refs map[string]wire.SecretRef) (wire.Container, error) {
	image, ok := rev.Spec.Images[c.Image]
	if !ok {
		return wire.Container{}, fmt.Errorf("image %s is not resolved to a digest", c.Image)
	}
	out := wire.Container{
		Name: c.Name, Image: image, ImageName: c.Image, WorkingDir: c.WorkingDir,
		CPUMilli: milli(c.Resources.Limits), CPUShares: milli(c.Resources.Requests), Memory: memory(c.Resources.Limits),
		Readiness: probeOf(c.ReadinessProbe),
	}
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			out.HostPorts = append(out.HostPorts, p.HostPort)
		}
	}
	for _, d := range c.Devices {
		out.Devices = append(out.Devices, wire.DeviceFile{Path: d.Path, Permissions: d.Permissions})
	}
	if s := c.SecurityContext; s != nil && s.Privileged != nil {
		out.Privileged = *s.Privileged
	}
	for _, m := range c.VolumeMounts {
		out.Mounts = append(out.Mounts, wire.Mount{Volume: m.Name, Path: m.MountPath, ReadOnly: m.ReadOnly})
	}
	values := environment{}
	for _, e := range c.Env {
		env, present, err := r.env(e, values)
		if err != nil {
			return wire.Container{}, fmt.Errorf("env %s: %w", e.Name, err)
		}
		if !present {
			continue
		}
		if env.Secret != nil {
			refs[secretKey(*env.Secret)] = *env.Secret
		}
		values[e.Name] = env
		out.Env = append(out.Env, env)
	}
	var err error
	if out.Command, err = r.expandAll(c.Command, values); err != nil {
		return wire.Container{}, fmt.Errorf("command: %w", err)
	}
	if out.Args, err = r.expandAll(c.Args, values); err != nil {
		return wire.Container{}, fmt.Errorf("args: %w", err)
	}
	return out, nil
}

// env resolves one variable; present is false for an optional reference to what is not there.
func (r *resolver) env(e api.EnvVar, before environment) (env wire.Env, present bool, err error) {
	env.Name = e.Name
	src := e.ValueFrom
	switch {
	case src == nil:
		env.Value, err = r.expand(e.Value, before)
		return env, err == nil, err
	case src.FieldRef != nil:
		v, known, _ := r.field(src.FieldRef.FieldPath)
		if !known {
			return env, false, unknownField(src.FieldRef.FieldPath)
		}
		env.Value = v // "" when the label is not there, as in Kubernetes
		return env, true, nil
	case src.ConfigMapKeyRef != nil:
		return r.configEnv(env, *src.ConfigMapKeyRef)
	case src.SecretKeyRef != nil:
		return r.secretEnv(env, *src.SecretKeyRef)
	}
	return env, false, fmt.Errorf("valueFrom names no source")
}

func (r *resolver) configEnv(env wire.Env, k api.KeySelector) (wire.Env, bool, error) {
	m, ok := r.in.ConfigMaps[r.assignment.Metadata.Namespace+"/"+k.Name]
	if ok {
		r.newest = max(r.newest, revisionOf(m.Metadata.ResourceVersion))
		if v, ok := m.Data[k.Key]; ok {
			env.Value = v
			return env, true, nil
		}
	}
	return env, false, missing("ConfigMap", r.assignment.Metadata.Namespace, k, ok)
}

func (r *resolver) secretEnv(env wire.Env, k api.KeySelector) (wire.Env, bool, error) {
	ns := r.assignment.Metadata.Namespace
	s, ok := r.in.Secrets[ns+"/"+k.Name]
	if ok {
		r.newest = max(r.newest, revisionOf(s.Metadata.ResourceVersion))
		if v, ok := s.Data[k.Key]; ok {
			// As a variable in clear; the value itself must not stand in an error.
			if err := (&wire.Env{Name: env.Name, Value: string(v)}).Validate(); err != nil {
				return env, false, fmt.Errorf("key %s of Secret %s/%s: %w", k.Key, ns, k.Name, err)
			}
			full := ns + "/" + k.Name + "/" + k.Key
			ref := wire.SecretRef{Name: full, ID: wire.HashOf(r.keyed(append([]byte(full+"\x00"), v...)))}
			r.secrets[secretKey(ref)] = v
			env.Secret = &ref
			return env, true, nil
		}
	}
	return env, false, missing("Secret", ns, k, ok)
}

// missing is nil for an optional key.
func missing(kind, ns string, k api.KeySelector, exists bool) error {
	if k.Optional != nil && *k.Optional {
		return nil
	}
	if !exists {
		return fmt.Errorf("%s %s/%s does not exist: create it, or mark the reference optional", kind, ns, k.Name)
	}
	return fmt.Errorf("%s %s/%s has no key %s: add it, or mark the reference optional", kind, ns, k.Name, k.Key)
}

// field is the value of a field path; known says that the path exists, found that the device has the label or annotation.
func (r *resolver) field(path string) (value string, known, found bool) {
	d, a := r.in.Device.Metadata, r.assignment.Metadata
	switch path {
	case "device.name":
		return d.Name, true, true
	case "assignment.name":
		return a.Name, true, true
	case "assignment.namespace":
		return a.Namespace, true, true
	case "assignment.ordinal":
		if o := r.assignment.Spec.Ordinal; o != nil {
			return strconv.Itoa(int(*o)), true, true
		}
		return "", true, false
	}
	if key, ok := strings.CutPrefix(path, "device.labels."); ok {
		v, found := d.Labels[key]
		return v, true, found
	}
	if key, ok := strings.CutPrefix(path, "device.annotations."); ok {
		v, found := d.Annotations[key]
		return v, true, found
	}
	return "", false, false
}

func unknownField(path string) error {
	return fmt.Errorf("%s is no field of the device or the assignment: write device.name, device.labels.X, device.annotations.X, "+
		"assignment.name, assignment.namespace or assignment.ordinal", path)
}

func milli(l api.ResourceList) uint64 {
	if q, ok := l["cpu"]; ok {
		return uint64(max(q.Milli(), 0))
	}
	return 0
}

func memory(l api.ResourceList) uint64 {
	if q, ok := l["memory"]; ok {
		return uint64(max(q.Bytes(), 0))
	}
	return 0
}

func probeOf(p *api.Probe) *wire.Probe {
	if p == nil || p.Exec == nil {
		return nil
	}
	or := func(v, d int32) uint32 {
		if v <= 0 {
			return uint32(d)
		}
		return uint32(v)
	}
	return &wire.Probe{
		Command: p.Exec.Command, DelaySecs: or(p.InitialDelaySeconds, 0), PeriodSecs: or(p.PeriodSeconds, 10),
		TimeoutSecs: or(p.TimeoutSeconds, 1), Successes: or(p.SuccessThreshold, 1), Failures: or(p.FailureThreshold, 3),
	}
}
