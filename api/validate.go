package api

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Limits of what people write.
const (
	MaxReplicas     = 100_000
	MaxHistoryLimit = 100
	MaxGraceSeconds = 3600
	MaxTokenUses    = 100_000
	maxMinReady     = 7 * 24 * 3600
	maxLabels       = 256       // each selector looks at all of them
	maxAnnotations  = 256 << 10 // bytes of keys and values, as Kubernetes
)

// Validate lists every rule that a defaulted object breaks; nil when it is fine.
func Validate(obj Object) []FieldError {
	k, ok := KindFor(obj)
	if !ok {
		return []FieldError{{"kind", fmt.Sprintf("%T is no kind of this release", obj)}}
	}
	errs := checkMeta(k, obj.Meta())
	switch o := obj.(type) {
	case *Workload:
		errs = append(errs, checkWorkload(&o.Spec)...)
	case *WorkloadRevision:
		errs = append(errs, checkRevision(&o.Spec)...)
	case *Assignment:
		errs = append(errs, checkAssignment(&o.Spec)...)
	case *Rollout:
		errs = append(errs, checkRollout(&o.Spec)...)
	case *Device:
		errs = append(errs, checkTaints(o.Spec.Taints)...)
	case *JoinToken:
		errs = append(errs, checkJoinToken(&o.Spec)...)
	case *EnrollmentRequest:
		errs = append(errs, checkEnrollment(&o.Spec)...)
	case *Tombstone:
		errs = append(errs, checkTombstone(o)...)
	case *ConfigMap:
		errs = append(errs, checkConfigMap(o)...)
	case *Secret:
		errs = append(errs, checkSecret(o)...)
	case *Event:
		errs = append(errs, checkEvent(o)...)
	case *DevicePool:
		errs = append(errs, checkPool(&o.Spec)...)
	case *ResourceQuota:
		errs = append(errs, checkQuota(&o.Spec)...)
	case *PriorityClass:
		errs = append(errs, checkPriorityClass(o)...)
	case *Role:
		errs = append(errs, checkRules(o.Rules, false)...)
	case *ClusterRole:
		errs = append(errs, checkClusterRole(o)...)
	case *RoleBinding:
		errs = append(errs, checkBinding(&o.RoleRef, o.Subjects, true)...)
	case *ClusterRoleBinding:
		errs = append(errs, checkBinding(&o.RoleRef, o.Subjects, false)...)
	}
	return append(errs, checkConditions(conditionsOf(obj))...)
}

// ValidateUpdate lists the rules broken by the new object itself and by the step from the old one: what may not change.
func ValidateUpdate(old, obj Object) []FieldError {
	errs := Validate(obj)
	same := func(path string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			errs = append(errs, FieldError{path, "may not change; make a new object instead"})
		}
	}
	same("metadata.name", old.Meta().Name, obj.Meta().Name)
	same("metadata.namespace", old.Meta().Namespace, obj.Meta().Namespace)
	same("metadata.uid", old.Meta().UID, obj.Meta().UID)
	switch o := obj.(type) {
	case *WorkloadRevision:
		if p, ok := old.(*WorkloadRevision); ok {
			a, b := p.Spec, o.Spec
			if b.Revision < a.Revision {
				errs = append(errs, FieldError{"spec.revision", fmt.Sprintf("may only grow; it is %d", a.Revision)})
			}
			a.Revision, b.Revision = 0, 0
			same("spec", a, b)
		}
	case *Assignment:
		if p, ok := old.(*Assignment); ok {
			same("spec.workload", p.Spec.Workload, o.Spec.Workload)
			same("spec.ordinal", p.Spec.Ordinal, o.Spec.Ordinal)
		}
	case *PriorityClass:
		if p, ok := old.(*PriorityClass); ok {
			same("value", p.Value, o.Value)
		}
	case *Rollout:
		if p, ok := old.(*Rollout); ok {
			same("spec.workload", p.Spec.Workload, o.Spec.Workload)
			same("spec.from", p.Spec.From, o.Spec.From)
			same("spec.to", p.Spec.To, o.Spec.To)
			if p.Spec.Aborted && !o.Spec.Aborted {
				errs = append(errs, FieldError{"spec.aborted", "an aborted rollout stays so; apply the workload again to start a new one"})
			}
		}
	case *JoinToken:
		if p, ok := old.(*JoinToken); ok {
			same("spec.secretHash", p.Spec.SecretHash, o.Spec.SecretHash)
			same("spec.for", p.Spec.For, o.Spec.For)
		}
	case *EnrollmentRequest:
		if p, ok := old.(*EnrollmentRequest); ok {
			same("spec.fingerprint", p.Spec.Fingerprint, o.Spec.Fingerprint)
			same("spec.csr", p.Spec.CSR, o.Spec.CSR)
		}
	case *Tombstone:
		if p, ok := old.(*Tombstone); ok {
			same("spec", p.Spec, o.Spec)
		}
	case *RoleBinding:
		if p, ok := old.(*RoleBinding); ok {
			same("roleRef", p.RoleRef, o.RoleRef)
		}
	case *ClusterRoleBinding:
		if p, ok := old.(*ClusterRoleBinding); ok {
			same("roleRef", p.RoleRef, o.RoleRef)
		}
	case *ConfigMap:
		if p, ok := old.(*ConfigMap); ok && isTrue(p.Immutable) {
			same("data", p.Data, o.Data)
			same("binaryData", p.BinaryData, o.BinaryData)
			same("immutable", true, isTrue(o.Immutable))
		}
	case *Secret:
		if p, ok := old.(*Secret); ok {
			same("type", p.SecretType, o.SecretType)
			if isTrue(p.Immutable) {
				same("data", p.Data, o.Data)
				same("immutable", true, isTrue(o.Immutable))
			}
		}
	}
	return errs
}

func isTrue(b *bool) bool { return b != nil && *b }

func checkMeta(k *Kind, m *ObjectMeta) []FieldError {
	var errs []FieldError
	switch {
	case m.Name == "" && m.GenerateName == "":
		errs = append(errs, FieldError{"metadata.name", "is missing"})
	case m.Name != "" && k == KindNamespace:
		errs = appendErr(errs, "metadata.name", CheckDNSLabel(m.Name))
	case m.Name != "" && isRBAC(k):
		errs = appendErr(errs, "metadata.name", CheckPathName(m.Name))
	case m.Name != "":
		errs = appendErr(errs, "metadata.name", CheckDNSName(m.Name))
	}
	if k.Namespaced {
		errs = appendErr(errs, "metadata.namespace", CheckDNSLabel(m.Namespace))
	} else if m.Namespace != "" {
		errs = append(errs, FieldError{"metadata.namespace", k.Kind + " has no namespace; remove it"})
	}
	if n := len(m.Labels); n > maxLabels {
		return append(errs, FieldError{"metadata.labels", fmt.Sprintf("are %d; the limit is %d: what nothing is selected by goes into annotations", n, maxLabels)})
	}
	errs = append(errs, checkLabels("metadata.labels", m.Labels)...)
	errs = append(errs, checkAnnotations("metadata.annotations", m.Annotations)...)
	for i, f := range m.Finalizers {
		errs = appendErr(errs, "metadata.finalizers"+index(i), CheckLabelKey(f))
	}
	for i, r := range m.OwnerReferences {
		if r.APIVersion == "" || r.Kind == "" || r.Name == "" || r.UID == "" {
			errs = append(errs, FieldError{"metadata.ownerReferences" + index(i), "needs apiVersion, kind, name and uid"})
		}
	}
	return errs
}

func checkLabels(path string, labels map[string]string) []FieldError {
	var errs []FieldError
	for _, k := range sortedKeys(labels) {
		errs = appendErr(errs, path+key(k), CheckLabelKey(k))
		errs = appendErr(errs, path+key(k), CheckLabelValue(labels[k]))
	}
	return errs
}

func checkAnnotations(path string, annotations map[string]string) []FieldError {
	var errs []FieldError
	size := 0
	for _, k := range sortedKeys(annotations) {
		errs = appendErr(errs, path+key(k), CheckLabelKey(k))
		size += len(k) + len(annotations[k])
	}
	if size > maxAnnotations {
		errs = append(errs, FieldError{path, fmt.Sprintf("are %d bytes; the limit is %d", size, maxAnnotations)})
	}
	return errs
}

// ConditionsOf returns the object's conditions, to read or set; nil for a kind without.
func ConditionsOf(obj Object) *[]Condition {
	switch o := obj.(type) {
	case *Workload:
		return &o.Status.Conditions
	case *Assignment:
		return &o.Status.Conditions
	case *Rollout:
		return &o.Status.Conditions
	case *Device:
		return &o.Status.Conditions
	case *DevicePool:
		return &o.Status.Conditions
	}
	return nil
}

func conditionsOf(obj Object) []Condition {
	if p := ConditionsOf(obj); p != nil {
		return *p
	}
	return nil
}

func checkConditions(list []Condition) []FieldError {
	var errs []FieldError
	seen := map[string]bool{}
	for i, c := range list {
		path := "status.conditions" + index(i)
		if c.Type == "" || seen[c.Type] {
			errs = append(errs, FieldError{path + ".type", fmt.Sprintf("%q is missing or there twice", c.Type)})
		}
		seen[c.Type] = true
		if !slices.Contains([]string{True, False, Unknown}, c.Status) {
			errs = append(errs, FieldError{path + ".status", unknownValue(c.Status, True, False, Unknown)})
		}
	}
	return errs
}

func checkConfigMap(o *ConfigMap) []FieldError {
	var errs []FieldError
	for _, k := range sortedKeys(o.Data) {
		errs = appendErr(errs, "data"+key(k), CheckConfigKey(k))
		if _, twice := o.BinaryData[k]; twice {
			errs = append(errs, FieldError{"binaryData" + key(k), "is also in data; keep one"})
		}
	}
	for _, k := range sortedKeys(o.BinaryData) {
		errs = appendErr(errs, "binaryData"+key(k), CheckConfigKey(k))
	}
	return errs
}

func checkSecret(o *Secret) []FieldError {
	var errs []FieldError
	all := maps.Clone(o.StringData)
	if all == nil {
		all = map[string]string{}
	}
	for k := range o.Data {
		all[k] = ""
	}
	for _, k := range sortedKeys(all) {
		errs = appendErr(errs, "data"+key(k), CheckConfigKey(k))
	}
	return errs
}

func checkEvent(o *Event) []FieldError {
	var errs []FieldError
	if o.InvolvedObject.Kind == "" || o.InvolvedObject.Name == "" {
		errs = append(errs, FieldError{"involvedObject", "needs kind and name"})
	}
	if o.EventType != EventNormal && o.EventType != EventWarning {
		errs = append(errs, FieldError{"type", unknownValue(o.EventType, EventNormal, EventWarning)})
	}
	if o.Count < 0 {
		errs = append(errs, FieldError{"count", "is below 0"})
	}
	return errs
}
