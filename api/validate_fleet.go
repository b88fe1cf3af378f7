package api

import (
	"fmt"
	"strings"
)

func rangeError(path string, n, low, high int64) []FieldError {
	if n >= low && n <= high {
		return nil
	}
	return []FieldError{{path, fmt.Sprintf("is %d: want %d to %d", n, low, high)}}
}

func required(path, value string) []FieldError {
	if value == "" {
		return []FieldError{{path, "is missing"}}
	}
	return nil
}

// nameField wants an object's name.
func nameField(path, value string) []FieldError {
	if value == "" {
		return required(path, value)
	}
	return appendErr(nil, path, CheckDNSName(value))
}

func join(lists ...[]FieldError) []FieldError {
	var errs []FieldError
	for _, l := range lists {
		errs = append(errs, l...)
	}
	return errs
}

func checkWorkload(s *WorkloadSpec) []FieldError {
	errs := join(checkPlacement("spec.placement", &s.Placement), checkRolloutRule("spec.rollout", &s.Rollout), checkTemplate("spec.template", &s.Template))
	if s.RevisionHistoryLimit != nil {
		errs = append(errs, rangeError("spec.revisionHistoryLimit", int64(*s.RevisionHistoryLimit), 0, MaxHistoryLimit)...)
	}
	return errs
}

func checkPlacement(path string, p *Placement) []FieldError {
	var errs []FieldError
	switch {
	case p.Everywhere && p.Replicas != nil:
		errs = append(errs, FieldError{path, "has both everywhere and replicas; keep one: everywhere for a copy on each selected device, replicas for a number of copies"})
	case !p.Everywhere && p.Replicas == nil:
		errs = append(errs, FieldError{path, "needs everywhere: true (a copy on each selected device) or replicas (a number of copies)"})
	case p.Replicas != nil:
		errs = append(errs, rangeError(path+".replicas", int64(*p.Replicas), 0, MaxReplicas)...)
	}
	switch {
	case p.All && !p.Selector.IsEmpty():
		errs = append(errs, FieldError{path, "has both all: true and a selector; keep one"})
	case !p.All && p.Selector.IsEmpty():
		errs = append(errs, FieldError{path + ".selector", "selects nothing; write matchLabels, or all: true beside it for every device"})
	case p.Selector != nil:
		errs = append(errs, p.Selector.check(path+".selector")...)
	}
	if p.PriorityClassName != "" {
		errs = append(errs, nameField(path+".priorityClassName", p.PriorityClassName)...)
	}
	for i := range p.Tolerations {
		errs = append(errs, checkToleration(path+".tolerations"+index(i), &p.Tolerations[i])...)
	}
	return errs
}

func checkToleration(path string, t *Toleration) []FieldError {
	var errs []FieldError
	switch t.Operator {
	case TolerationExists:
		if t.Value != "" {
			errs = append(errs, FieldError{path + ".value", "Exists takes no value; remove it"})
		}
	case TolerationEqual:
		if t.Key == "" {
			errs = append(errs, FieldError{path + ".key", "is missing; only operator Exists may leave it out"})
		}
		errs = appendErr(errs, path+".value", CheckLabelValue(t.Value))
	default:
		errs = append(errs, FieldError{path + ".operator", unknownValue(t.Operator, TolerationEqual, TolerationExists)})
	}
	if t.Key != "" {
		errs = appendErr(errs, path+".key", CheckLabelKey(t.Key))
	}
	if t.Effect != "" && t.Effect != EffectNoSchedule {
		errs = append(errs, FieldError{path + ".effect", unsupportedEffect(t.Effect)})
	}
	return errs
}

func unsupportedEffect(effect string) string {
	if effect == "NoExecute" || effect == "PreferNoSchedule" {
		return effect + ": not supported by this release of Drover; want NoSchedule"
	}
	return unknownValue(effect, EffectNoSchedule)
}

func checkTaints(taints []Taint) []FieldError {
	var errs []FieldError
	seen := map[string]bool{}
	for i, t := range taints {
		path := "spec.taints" + index(i)
		errs = appendErr(errs, path+".key", CheckLabelKey(t.Key))
		errs = appendErr(errs, path+".value", CheckLabelValue(t.Value))
		if t.Effect != EffectNoSchedule {
			errs = append(errs, FieldError{path + ".effect", unsupportedEffect(t.Effect)})
		}
		if seen[t.Key+"="+t.Effect] {
			errs = append(errs, FieldError{path, fmt.Sprintf("taint %q is there twice with effect %s", t.Key, t.Effect)})
		}
		seen[t.Key+"="+t.Effect] = true
	}
	return errs
}

func checkRolloutRule(path string, r *RolloutRule) []FieldError {
	errs := rangeError(path+".minReadySeconds", int64(r.MinReadySeconds), 0, maxMinReady)
	if m := r.MaxUnavailable; m != nil {
		if m.IsPercent {
			errs = append(errs, rangeError(path+".maxUnavailable", int64(m.Percent), 0, 100)...)
		}
		if m.Count < 0 || (m.Count == 0 && m.Percent == 0) {
			errs = append(errs, FieldError{path + ".maxUnavailable", "is 0: nothing could ever be updated; want at least 1 or \"1%\""})
		}
	}
	if r.ProgressDeadline.Duration < 0 {
		errs = append(errs, FieldError{path + ".progressDeadline", "is below 0"})
	}
	return errs
}

func checkRevision(s *WorkloadRevisionSpec) []FieldError {
	errs := join(nameField("spec.workload", s.Workload), required("spec.hash", s.Hash), checkTemplate("spec.template", &s.Template))
	if s.Revision < 1 {
		errs = append(errs, FieldError{"spec.revision", fmt.Sprintf("is %d: want 1 or more", s.Revision)})
	}
	for i, c := range s.Template.Spec.Containers {
		if !strings.Contains(s.Images[c.Image], "@sha256:") {
			errs = append(errs, FieldError{"spec.images" + key(c.Image), fmt.Sprintf("container %d has no repository@sha256 digest for its image", i)})
		}
	}
	return errs
}

func checkAssignment(s *AssignmentSpec) []FieldError {
	errs := join(nameField("spec.workload", s.Workload), nameField("spec.revision", s.Revision))
	if s.Device != "" {
		errs = append(errs, nameField("spec.device", s.Device)...)
	}
	if s.Ordinal != nil {
		errs = append(errs, rangeError("spec.ordinal", int64(*s.Ordinal), 0, MaxReplicas-1)...)
	}
	return errs
}

func checkRollout(s *RolloutSpec) []FieldError {
	errs := join(nameField("spec.workload", s.Workload), nameField("spec.to", s.To))
	if s.From != "" {
		errs = append(errs, nameField("spec.from", s.From)...)
	}
	return errs
}

func checkJoinToken(s *JoinTokenSpec) []FieldError {
	errs := join(rangeError("spec.uses", int64(s.Uses), 1, MaxTokenUses), checkLabels("spec.labels", s.Labels))
	if s.For != TokenForDevice && s.For != TokenForHub {
		errs = append(errs, FieldError{"spec.for", unknownValue(s.For, TokenForDevice, TokenForHub)})
	}
	if s.For == TokenForHub && len(s.Labels) > 0 {
		errs = append(errs, FieldError{"spec.labels", "hub members have no labels; remove them"})
	}
	if s.SecretHash != "" && !isHash(s.SecretHash) {
		errs = append(errs, FieldError{"spec.secretHash", "want sha256: and 64 hex digits; the secret itself is never stored"})
	}
	for _, k := range sortedKeys(s.Labels) {
		if strings.HasPrefix(k, LabelPrefix) {
			errs = append(errs, FieldError{"spec.labels" + key(k), "labels of " + Group + "/ are set by the hub"})
		}
	}
	return errs
}

// isHash reports sha256: and 64 lower-case hex digits.
func isHash(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

func checkEnrollment(s *EnrollmentRequestSpec) []FieldError {
	errs := join(nameField("spec.device", s.Device), required("spec.token", s.Token), checkLabels("spec.labels", s.Labels))
	if !isHash(s.Fingerprint) {
		errs = append(errs, FieldError{"spec.fingerprint", "want sha256: and 64 hex digits"})
	}
	if len(s.CSR) == 0 {
		errs = append(errs, FieldError{"spec.csr", "is missing"})
	}
	if s.Approved && s.Denied {
		errs = append(errs, FieldError{"spec", "is both approved and denied; keep one"})
	}
	return errs
}

func checkTombstone(o *Tombstone) []FieldError {
	errs := join(nameField("spec.device", o.Spec.Device), required("spec.uid", o.Spec.UID))
	if want := o.Spec.Device + "." + o.Spec.UID; o.Metadata.Name != want {
		errs = append(errs, FieldError{"metadata.name", fmt.Sprintf("is %q, want DEVICE.UID, %q", o.Metadata.Name, want)})
	}
	return errs
}

// envName reports letters, digits, '_', '-' and '.', not beginning with a digit, as Kubernetes allows.
func envName(s string) bool {
	for i := range len(s) {
		c := s[i]
		digit := c >= '0' && c <= '9'
		if !letterOrDigit(c) && c != '_' && c != '-' && c != '.' || digit && i == 0 {
			return false
		}
	}
	return s != "" && len(s) <= MaxNameLen
}
