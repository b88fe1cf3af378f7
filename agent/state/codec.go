package state

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Codec turns what the agent keeps into bytes and back. Encoding is deterministic, so equal content is written once.
// Decoding takes unknown fields, since an older agent may read what a newer one wrote; it is bounded in depth and counts.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec makes a Codec.
func NewCodec() (*Codec, error) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, fmt.Errorf("state encoding: %w", err)
	}
	dec, err := cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		MaxNestedLevels:  16,
		MaxArrayElements: 1 << 16,
		MaxMapPairs:      1 << 16,
	}.DecMode()
	if err != nil {
		return nil, fmt.Errorf("state decoding: %w", err)
	}
	return &Codec{enc, dec}, nil
}

// Encode gives the bytes of v.
func (c *Codec) Encode(v any) ([]byte, error) {
	b, err := c.enc.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return b, nil
}

// Decode fills v from b, all of it.
func (c *Codec) Decode(b []byte, v any) error {
	if err := c.dec.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode state: %w", err)
	}
	return nil
}
