package registry

import (
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// selector is what a list or watch wants of a kind.
type selector struct {
	kind      *api.Kind
	namespace string // "" = all
	name      string // from metadata.name=X: "" = all
	labels    func(map[string]string) bool
	fields    []fieldTerm
	none      bool // the terms contradict each other
}

type fieldTerm struct {
	path, value string
	not         bool
}

// newSelector reads the query's form of label and field selectors.
func newSelector(k *api.Kind, namespace, labelSelector, fieldSelector string) (selector, error) {
	s := selector{kind: k, namespace: namespace}
	switch {
	case k == nil:
		return s, fault.BadRequest.Errorf("no kind given")
	case namespace != "" && !k.Namespaced:
		return s, fault.BadRequest.Errorf("%s has no namespaces", k.Plural)
	case strings.ContainsAny(namespace, "/\x00"):
		return s, fault.BadRequest.Errorf("a namespace may not contain a slash or a zero byte")
	}
	if labelSelector != "" {
		l, err := api.ParseSelector(labelSelector)
		if err != nil {
			return s, fault.BadRequest.Errorf("labelSelector: %w", err)
		}
		s.labels = l.Matches
	}
	terms, err := parseFields(k, fieldSelector)
	if err != nil {
		return s, err
	}
	for _, t := range terms {
		s.addField(t)
	}
	return s, nil
}

// addField turns equality on name and namespace into a narrower range of keys.
func (s *selector) addField(t fieldTerm) {
	at := map[string]*string{"metadata.name": &s.name}
	if s.kind.Namespaced {
		at["metadata.namespace"] = &s.namespace
	}
	p, isKey := at[t.path]
	if !isKey || t.not || t.value == "" || strings.ContainsAny(t.value, "/\x00") {
		s.fields = append(s.fields, t)
		return
	}
	if *p != "" && *p != t.value {
		s.none = true
	}
	*p = t.value
}

// maxFieldTerms bounds a field selector.
const maxFieldTerms = 32

func parseFields(k *api.Kind, text string) ([]fieldTerm, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxFieldTerms {
		return nil, fault.BadRequest.Errorf("fieldSelector: %d terms, at most %d are allowed", len(parts), maxFieldTerms)
	}
	var out []fieldTerm
	for _, part := range parts {
		if part == "" {
			continue
		}
		var t fieldTerm
		var ok bool
		if t.path, t.value, ok = strings.Cut(part, "!="); ok {
			t.not = true
		} else if t.path, t.value, ok = strings.Cut(part, "=="); !ok {
			t.path, t.value, ok = strings.Cut(part, "=")
		}
		if !ok {
			return nil, fault.BadRequest.Errorf("fieldSelector: %q is not of the form FIELD=VALUE or FIELD!=VALUE", part)
		}
		if _, known := fieldValue(k.New(), t.path); !known {
			return nil, fault.BadRequest.Errorf("fieldSelector: %s cannot be selected by %q, only by %s", k.Plural, t.path, strings.Join(api.SelectableFields(k), ", "))
		}
		out = append(out, t)
	}
	return out, nil
}

// fieldValue is the value of a field that can be selected by; ok is false where the kind has no such field.
func fieldValue(obj api.Object, path string) (value string, ok bool) {
	switch path {
	case "metadata.name":
		return obj.Meta().Name, true
	case "metadata.namespace":
		return obj.Meta().Namespace, true
	}
	values := map[string]string{}
	switch o := obj.(type) {
	case *api.Assignment:
		values = map[string]string{"spec.device": o.Spec.Device, "spec.workload": o.Spec.Workload, "spec.revision": o.Spec.Revision, "status.phase": o.Status.Phase}
	case *api.Rollout:
		values = map[string]string{"spec.workload": o.Spec.Workload, "status.phase": o.Status.Phase}
	case *api.WorkloadRevision:
		values = map[string]string{"spec.workload": o.Spec.Workload}
	case *api.Tombstone:
		values = map[string]string{"spec.device": o.Spec.Device, "spec.workload": o.Spec.Workload}
	case *api.EnrollmentRequest:
		values = map[string]string{"spec.device": o.Spec.Device, "status.phase": o.Status.Phase}
	case *api.Namespace:
		values = map[string]string{"status.phase": o.Status.Phase}
	case *api.Secret:
		values = map[string]string{"type": o.SecretType}
	case *api.Event:
		v := o.InvolvedObject
		values = map[string]string{
			"reason": o.Reason, "type": o.EventType, "involvedObject.kind": v.Kind, "involvedObject.namespace": v.Namespace,
			"involvedObject.name": v.Name, "involvedObject.uid": v.UID, "involvedObject.apiVersion": v.APIVersion,
			"involvedObject.resourceVersion": v.ResourceVersion, "involvedObject.fieldPath": v.FieldPath,
		}
	}
	value, ok = values[path]
	return value, ok
}

// narrow reports whether objects in the range of keys may still not match.
func (s *selector) narrow() bool {
	return s.labels != nil || len(s.fields) > 0 || s.byNameOnly() || s.none
}

// byNameOnly: a name without its namespace needs the whole kind's range.
func (s *selector) byNameOnly() bool { return s.name != "" && s.kind.Namespaced && s.namespace == "" }

// byContent reports whether a change of an object can make it enter or leave.
func (s *selector) byContent() bool { return s.labels != nil || len(s.fields) > 0 }

// keys is the range that holds everything wanted; end is empty for a single key.
func (s *selector) keys() (start, end string) {
	if s.name != "" && !s.byNameOnly() {
		return keyOf(api.Ref{Kind: s.kind, Namespace: s.namespace, Name: s.name}), ""
	}
	p := prefixOf(s.kind, s.namespace)
	return p, prefixEnd(p)
}

// matchesRef judges what the key tells.
func (s *selector) matchesRef(ref api.Ref) bool {
	return !s.none && (s.name == "" || s.name == ref.Name)
}

func (s *selector) matches(obj api.Object) bool {
	if s.labels != nil && !s.labels(obj.Meta().Labels) {
		return false
	}
	for _, t := range s.fields {
		if v, _ := fieldValue(obj, t.path); (v == t.value) == t.not {
			return false
		}
	}
	return true
}
