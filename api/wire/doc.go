// Package wire is the device protocol: the messages between a hub and its devices, whatever the transport, their CBOR
// form, their name on each transport, their size limits, and the dated history of capabilities.
//
// The rules it carries (DESIGN section 6): a device acts only on a Desired of its own cluster whose (epoch, revision) is
// not lower than what it holds; absence removes nothing, removal is a tombstone; a hub accepts only reports whose
// (session, sequence) is higher than the last. Decoding is strict and bounded: duplicate keys, indefinite lengths,
// unknown fields of a lower capability and anything above the limits are errors, never panics.
//
// Besides api, nothing here is known to both sides; hub/gateway and agent/link are joined by this package alone.
package wire
