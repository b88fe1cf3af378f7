package wire

import (
	"crypto/sha256"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/grant"
)

// Bounds of any message, besides its size: they cap what a decoder allocates for a small input.
const (
	maxDepth    = 16
	maxElements = 16384
	maxPairs    = 4096
)

// modes are the CBOR forms: one deterministic encoding, a strict decoding, and one that passes over unknown fields.
type modes struct {
	enc     cbor.EncMode
	strict  cbor.DecMode
	lenient cbor.DecMode
}

// cborModes builds the modes once. Its options are constants, so an error is a defect of this file.
var cborModes = sync.OnceValue(func() modes {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic("wire: CBOR encoding options: " + err.Error())
	}
	o := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:   maxDepth,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       maxPairs,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
	}
	strict, err := o.DecMode()
	if err != nil {
		panic("wire: CBOR decoding options: " + err.Error())
	}
	o.ExtraReturnErrors = cbor.ExtraDecErrorNone
	lenient, err := o.DecMode()
	if err != nil {
		panic("wire: CBOR decoding options: " + err.Error())
	}
	return modes{enc: enc, strict: strict, lenient: lenient}
})

// message is a type that checks itself after decoding.
type message interface{ Validate() error }

// negotiator is a message sent before either side knows what the other speaks: fields it does not know are passed over.
type negotiator interface{ negotiates() }

func (*Hello) negotiates()         {}
func (*HelloReply) negotiates()    {}
func (*EnrollRequest) negotiates() {}
func (*EnrollReply) negotiates()   {}

// Encode returns the deterministic CBOR form of v: equal values have equal bytes, so a hash of the bytes names the value.
func Encode(v any) ([]byte, error) {
	b, err := cborModes().enc.Marshal(v)
	if err != nil {
		return nil, fault.Internal.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

// Decode reads data, at most limit bytes, into v, a pointer to a message, and checks it. Unknown fields are errors save in the
// messages that negotiate. Errors: TooLarge, BadRequest (not CBOR as it should be), Invalid (breaks a rule of the message).
func Decode(data []byte, limit int, v any) error {
	if len(data) > limit {
		return fault.SizeLimit(nameOf(v), int64(len(data)), int64(limit))
	}
	mode := cborModes().strict
	if _, ok := v.(negotiator); ok {
		mode = cborModes().lenient
	}
	if err := mode.Unmarshal(data, v); err != nil {
		return fault.BadRequest.Errorf("decode %s: %w", nameOf(v), err)
	}
	if m, ok := v.(message); ok {
		if err := m.Validate(); err != nil {
			return fault.Invalid.Errorf("%s: %w", nameOf(v), err)
		}
	}
	return nil
}

// HashOf is the SHA-256 of encoded bytes.
func HashOf(encoded []byte) Hash {
	h := sha256.Sum256(encoded)
	return h[:]
}

// ComputeBundleHash hashes what the device is to run and to remove: the device's name, the index (whose hashes cover the
// bodies), the UIDs of the tombstones and the grant. Position and the tombstones' revisions are not part of it.
func (d Desired) ComputeBundleHash() (Hash, error) {
	gone := make([]string, len(d.Tombstones))
	for i, t := range d.Tombstones {
		gone[i] = t.UID
	}
	b, err := Encode(struct {
		Device      string       `cbor:"1,keyasint"`
		Assignments []Entry      `cbor:"2,keyasint,omitempty"`
		Gone        []string     `cbor:"3,keyasint,omitempty"`
		Grant       *grant.Grant `cbor:"4,keyasint,omitempty"`
	}{d.Device, d.Assignments, gone, d.Grant})
	if err != nil {
		return nil, err
	}
	return HashOf(b), nil
}
