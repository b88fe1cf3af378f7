package api

import (
	"encoding/json"
	"slices"
)

const (
	// AnnotationContended is where the hub notes fields that one manager applied and another changed since. Only the hub writes it, and no
	// manager owns it. On kinds with conditions the condition ConditionContended says the same in words.
	AnnotationContended = "fleet.drover.dev/contended"
	// ConditionContended is True while a declared field holds what another manager than the declarer gave it.
	ConditionContended = "Contended"
)

// ContendedField is one field of an object that one manager declared, by applying it, and another changed.
type ContendedField struct {
	Field      string `json:"field"` // as spec.placement.replicas
	DeclaredBy string `json:"declaredBy"`
	ChangedBy  string `json:"changedBy"`
	// After is the resourceVersion that the change was made on: the object's next version is the change.
	After string `json:"after,omitempty"`
	// Declared is a keyed hash of the value that was declared, by which the hub sees that it is back. It tells nothing else.
	Declared string `json:"declared"`
	// Back says that the declared value is there again, by the other's hand: the field is watched still, and not contended.
	Back bool `json:"back,omitempty"`
}

// ContendedFields are those of the object now.
func ContendedFields(obj Object) []ContendedField {
	return slices.DeleteFunc(ContendedNotes(obj), func(f ContendedField) bool { return f.Back })
}

// ContendedNotes is everything that the hub noted on the object.
func ContendedNotes(obj Object) []ContendedField {
	var out []ContendedField
	if json.Unmarshal([]byte(obj.Meta().Annotations[AnnotationContended]), &out) != nil {
		return nil
	}
	return out
}
