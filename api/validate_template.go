package api

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// MinMemoryLimit is the least memory a container can start with: below it the runtime itself fails.
const MinMemoryLimit = 6 << 20

const (
	maxContainers = 32
	maxVolumes    = 64
	maxMounts     = 64
	maxEnv        = 512
	maxProbeTime  = 24 * 3600
)

func checkTemplate(at string, t *Template) []FieldError {
	spec := at + ".spec"
	errs := join(checkLabels(at+".metadata.labels", t.Metadata.Labels), checkAnnotations(at+".metadata.annotations", t.Metadata.Annotations),
		checkVolumes(spec+".volumes", t.Spec.Volumes), checkProjections(spec, &t.Spec), checkContainers(spec+".containers", &t.Spec))
	if n := t.Spec.HostNetwork; n != nil && !*n {
		errs = append(errs, FieldError{spec + ".hostNetwork", "false is not supported by this release of Drover: containers share the network of the agent; remove the line or write true"})
	}
	if g := t.Spec.TerminationGracePeriodSeconds; g != nil {
		errs = append(errs, rangeError(spec+".terminationGracePeriodSeconds", *g, 0, MaxGraceSeconds)...)
	}
	if p := []string{RestartAlways, RestartOnFailure, RestartNever}; !slices.Contains(p, t.Spec.RestartPolicy) {
		errs = append(errs, FieldError{spec + ".restartPolicy", unknownValue(t.Spec.RestartPolicy, p...)})
	}
	return errs
}

func checkContainers(at string, p *PodSpec) []FieldError {
	if len(p.Containers) == 0 {
		return []FieldError{{at, "is empty: want at least one container"}}
	}
	errs := limitCount(at, len(p.Containers), maxContainers)
	seen, ports := map[string]int{}, portsSeen{}
	for i := range p.Containers {
		c := &p.Containers[i]
		errs = append(errs, ports.check(at+index(i)+".ports", c.Ports)...)
		errs = append(errs, twice(at, ".name", c.Name, i, seen)...)
		errs = append(errs, checkContainer(at+index(i), c, p.Volumes)...)
	}
	return errs
}

func limitCount(at string, n, limit int) []FieldError {
	if n <= limit {
		return nil
	}
	return []FieldError{{at, fmt.Sprintf("has %d entries; the limit is %d", n, limit)}}
}

// twice remembers name at place i and complains when it was there before.
func twice(at, field, name string, i int, seen map[string]int) []FieldError {
	before, found := seen[name]
	if !found || name == "" {
		seen[name] = i
		return nil
	}
	return []FieldError{{at + index(i) + field, fmt.Sprintf("%q is there twice: also at %s%s", name, at, index(before))}}
}

func checkContainer(at string, c *Container, volumes []Volume) []FieldError {
	errs := appendErr(nil, at+".name", CheckDNSLabel(c.Name))
	errs = appendErr(errs, at+".image", CheckImage(c.Image))
	if p := []string{PullIfNotPresent, PullAlways, PullNever}; !slices.Contains(p, c.ImagePullPolicy) {
		errs = append(errs, FieldError{at + ".imagePullPolicy", unknownValue(c.ImagePullPolicy, p...)})
	}
	if c.WorkingDir != "" {
		errs = appendErr(errs, at+".workingDir", checkPath(c.WorkingDir))
	}
	errs = append(errs, join(checkStrings(at+".command", c.Command), checkStrings(at+".args", c.Args), checkEnv(at+".env", c.Env),
		checkDevices(at+".devices", c.Devices), checkResources(at+".resources", &c.Resources), checkMounts(at+".volumeMounts", c.VolumeMounts, volumes))...)
	if c.ReadinessProbe != nil {
		errs = append(errs, checkProbe(at+".readinessProbe", c.ReadinessProbe)...)
	}
	return errs
}

// CheckImage wants the form of an image reference: [host[:port]/]repository[:tag][@sha256:digest]. Whether it exists is
// admission's to find out.
func CheckImage(s string) error {
	if s == "" {
		return fmt.Errorf("is missing")
	}
	if len(s) > 512 {
		return fmt.Errorf("is %d characters; the limit is 512", len(s))
	}
	if strings.ContainsAny(s, " \t\r\n\x00") || strings.Contains(s, "://") {
		return fmt.Errorf("%q is not an image: want repository:tag, without a scheme and blanks", clip(s))
	}
	name, digest, pinned := strings.Cut(s, "@")
	if pinned && !isHash(digest) {
		return fmt.Errorf("%q: the digest is not sha256: and 64 hex digits", clip(s))
	}
	repository := name
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository = name[:i]
		if tag := name[i+1:]; tag == "" || len(tag) > 128 || tag[0] == '-' || tag[0] == '.' {
			return fmt.Errorf("%q: the tag is empty, too long or begins with '-' or '.'", clip(s))
		}
	}
	for i, part := range strings.Split(repository, "/") {
		if part == "" {
			return fmt.Errorf("%q has an empty part between '/'", clip(s))
		}
		if i > 0 && strings.ToLower(part) != part {
			return fmt.Errorf("%q has upper-case letters in its repository; did you mean %q?", clip(s), clip(strings.ToLower(repository)))
		}
	}
	return nil
}

// checkPath wants a clean absolute path.
func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") {
		return fmt.Errorf("%q is not an absolute path: begin it with '/'", clip(p))
	}
	if strings.ContainsRune(p, 0) || len(p) > 4096 {
		return fmt.Errorf("%q has a zero byte or more than 4096 characters", clip(p))
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return fmt.Errorf("%q has a part \"..\"; write it as %q", clip(p), path.Clean(p))
	}
	return nil
}

func checkStrings(at string, list []string) []FieldError {
	var errs []FieldError
	for i, s := range list {
		if strings.ContainsRune(s, 0) {
			errs = append(errs, FieldError{at + index(i), "has a zero byte"})
		}
	}
	return errs
}

func checkEnv(at string, env []EnvVar) []FieldError {
	errs := limitCount(at, len(env), maxEnv)
	seen := map[string]int{}
	for i := range env {
		e := &env[i]
		errs = append(errs, twice(at, ".name", e.Name, i, seen)...)
		if !envName(e.Name) {
			errs = append(errs, FieldError{at + index(i) + ".name", fmt.Sprintf("%q is not a variable's name: want letters, digits, '_', '-' and '.', not beginning with a digit", clip(e.Name))})
		}
		if strings.ContainsRune(e.Value, 0) {
			errs = append(errs, FieldError{at + index(i) + ".value", "has a zero byte"})
		}
		if e.ValueFrom != nil {
			errs = append(errs, checkValueFrom(at+index(i), e)...)
		}
	}
	return errs
}

func checkValueFrom(at string, e *EnvVar) []FieldError {
	from := at + ".valueFrom"
	var errs []FieldError
	if e.Value != "" {
		errs = append(errs, FieldError{at, "has both value and valueFrom; keep one"})
	}
	sources := 0
	if f := e.ValueFrom.FieldRef; f != nil {
		sources++
		errs = appendErr(errs, from+".fieldRef.fieldPath", checkFieldPath(f.FieldPath))
	}
	if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
		sources++
		errs = append(errs, checkKeyRef(from+".configMapKeyRef", r)...)
	}
	if r := e.ValueFrom.SecretKeyRef; r != nil {
		sources++
		errs = append(errs, checkKeyRef(from+".secretKeyRef", r)...)
	}
	if sources != 1 {
		errs = append(errs, FieldError{from, fmt.Sprintf("has %d sources: want exactly one of fieldRef, configMapKeyRef and secretKeyRef", sources)})
	}
	return errs
}

func checkKeyRef(at string, r *KeySelector) []FieldError {
	return appendErr(nameField(at+".name", r.Name), at+".key", CheckConfigKey(r.Key))
}

// checkFieldPath knows device.name, device.labels.KEY, device.annotations.KEY, assignment.name, .namespace and .ordinal.
func checkFieldPath(p string) error {
	for _, prefix := range []string{"device.labels.", "device.annotations."} {
		if k, ok := strings.CutPrefix(p, prefix); ok {
			return CheckLabelKey(k)
		}
	}
	known := []string{"device.name", "assignment.name", "assignment.namespace", "assignment.ordinal"}
	if slices.Contains(known, p) {
		return nil
	}
	return fmt.Errorf("%s", unknownValue(p, append(known, "device.labels.KEY", "device.annotations.KEY")...))
}

func checkResources(at string, r *ResourceRequirements) []FieldError {
	errs := join(checkResourceList(at+".requests", r.Requests), checkResourceList(at+".limits", r.Limits))
	for _, name := range sortedKeys(r.Limits) {
		limit := r.Limits[name]
		if CheckResource(name, limit) != nil {
			continue // said already
		}
		if request, ok := r.Requests[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, FieldError{at + ".requests" + key(name), fmt.Sprintf("%s is more than the limit of %s", request, limit)})
		}
		switch {
		case limit.IsZero():
			errs = append(errs, FieldError{at + ".limits" + key(name), "is 0; remove the line for no limit"})
		case name == ResourceMemory && limit.Bytes() < MinMemoryLimit:
			errs = append(errs, FieldError{at + ".limits" + key(name), fmt.Sprintf("is %d bytes, less than the %d (6Mi) that a container needs to start; is the suffix right?", limit.Bytes(), MinMemoryLimit)})
		case name == ResourceCPU && limit.Milli() < 10:
			errs = append(errs, FieldError{at + ".limits" + key(name), fmt.Sprintf("is %s, less than the 10m that the kernel can enforce", limit)})
		}
	}
	return errs
}

func checkResourceList(at string, list ResourceList) []FieldError {
	var errs []FieldError
	for _, name := range sortedKeys(list) {
		if name == ResourceStorage {
			errs = append(errs, FieldError{at + key(name), "not supported by this release of Drover for containers: want cpu or memory"})
			continue
		}
		errs = appendErr(errs, at+key(name), CheckResource(name, list[name]))
	}
	return errs
}

func checkVolumes(at string, volumes []Volume) []FieldError {
	errs := limitCount(at, len(volumes), maxVolumes)
	seen := map[string]int{}
	for i := range volumes {
		v := &volumes[i]
		errs = append(errs, twice(at, ".name", v.Name, i, seen)...)
		errs = appendErr(errs, at+index(i)+".name", CheckDNSLabel(v.Name))
		if n := count(v.HostPath != nil, v.EmptyDir != nil, v.Projected != nil); n != 1 {
			errs = append(errs, FieldError{at + index(i), "needs exactly one of hostPath, emptyDir (as emptyDir: {}) and projected"})
		}
		if h := v.HostPath; h != nil {
			errs = appendErr(errs, at+index(i)+".hostPath.path", checkHostPath(h.Path))
			if types := []string{"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File"}; !slices.Contains(types, h.Type) {
				errs = append(errs, FieldError{at + index(i) + ".hostPath.type", unknownValue(h.Type, types[1:]...)})
			}
		}
	}
	return errs
}

func checkMounts(at string, mounts []VolumeMount, volumes []Volume) []FieldError {
	errs := limitCount(at, len(mounts), maxMounts)
	names := make([]string, len(volumes))
	for i, v := range volumes {
		names[i] = v.Name
	}
	seen := map[string]int{}
	for i, m := range mounts {
		if m.Name == "" || !slices.Contains(names, m.Name) {
			errs = append(errs, FieldError{at + index(i) + ".name", fmt.Sprintf("there is no volume %q in spec.volumes of the template", clip(m.Name))})
		}
		if err := checkPath(m.MountPath); err != nil {
			errs = appendErr(errs, at+index(i)+".mountPath", err)
			continue
		}
		clean := path.Clean(m.MountPath)
		if clean == "/" {
			errs = append(errs, FieldError{at + index(i) + ".mountPath", "a volume cannot replace the root of the container"})
		}
		errs = append(errs, twice(at, ".mountPath", clean, i, seen)...)
	}
	return errs
}

func checkProbe(at string, p *Probe) []FieldError {
	var errs []FieldError
	if p.Exec == nil || len(p.Exec.Command) == 0 {
		errs = append(errs, FieldError{at + ".exec.command", "is missing: this release of Drover probes by exec only"})
	} else {
		errs = append(errs, checkStrings(at+".exec.command", p.Exec.Command)...)
	}
	return append(errs, join(
		rangeError(at+".initialDelaySeconds", int64(p.InitialDelaySeconds), 0, maxProbeTime),
		rangeError(at+".periodSeconds", int64(p.PeriodSeconds), 1, maxProbeTime),
		rangeError(at+".timeoutSeconds", int64(p.TimeoutSeconds), 1, maxProbeTime),
		rangeError(at+".successThreshold", int64(p.SuccessThreshold), 1, 1000),
		rangeError(at+".failureThreshold", int64(p.FailureThreshold), 1, 1000))...)
}
