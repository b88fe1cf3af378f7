// Package api holds the objects that users write and devices obey: their fields, metadata, defaults, validation,
// quantities and selectors, and the strict decoding of manifests.
//
// It stands on the ground floor: no I/O, no clock, nothing heavy. Field names are Kubernetes' wherever Kubernetes has
// the field. A field that Drover does not implement is refused by name, never ignored.
//
// Objects read from a client or a cache are immutable: copy (DeepCopyObject) before change.
package api
