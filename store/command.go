package store

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// Limits of a command besides those in bytes of its parts. They are part of the format: a change of one is a
// change of what members accept, and needs a new level.
const (
	MaxNameBytes = 256     // actor, request id, writer, verb, epoch id
	MaxOps       = 1 << 16 // ops, and separately preconditions, of one command
)

// ErrBadCommand is wrapped by every error of EncodeCommand and DecodeCommand that is not ErrUnknownLevel.
var ErrBadCommand = errors.New("malformed command")

type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// commandCodec is built once, at the first use: the modes are immutable and safe for concurrent use.
var commandCodec = sync.OnceValues(func() (codec, error) {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return codec{}, err
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		UTF8:              cbor.UTF8RejectInvalid,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   8,
		MaxArrayElements:  MaxOps,
		MaxMapPairs:       64,
	}.DecMode()
	return codec{enc: enc, dec: dec}, err
})

// EncodeCommand validates the command and returns the one encoding that it has.
func EncodeCommand(c *Command) ([]byte, error) {
	m, err := commandCodec()
	if err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	b, err := m.enc.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	if len(b) > MaxCommandBytes {
		return nil, tooLarge(len(b))
	}
	return b, nil
}

// DecodeCommand reads what EncodeCommand wrote. It depends on nothing but its input, so every member refuses the
// same commands: unknown fields, repeated fields, trailing bytes and anything past a limit are errors. A field
// that a later level adds may only be sent from that level on. The result shares no memory with b.
func DecodeCommand(b []byte) (*Command, error) {
	if len(b) > MaxCommandBytes {
		return nil, tooLarge(len(b))
	}
	m, err := commandCodec()
	if err != nil {
		return nil, err
	}
	var c Command
	if err := m.dec.Unmarshal(b, &c); err != nil {
		// What a newer level looks like is not known here, save that the level itself stays where it is.
		if c.Level > FormatLevel {
			return nil, fmt.Errorf("%w: level %d, this build knows %d", ErrUnknownLevel, c.Level, FormatLevel)
		}
		return nil, fmt.Errorf("%w: %w", ErrBadCommand, err)
	}
	if c.Level > FormatLevel {
		return nil, fmt.Errorf("%w: level %d, this build knows %d", ErrUnknownLevel, c.Level, FormatLevel)
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &c, nil
}

func tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes, at most %d are allowed: split the transaction", ErrBadCommand, n, MaxCommandBytes)
}

func (c *Command) validate() error {
	if c.Level == 0 {
		return fmt.Errorf("%w: level is 0", ErrBadCommand)
	}
	if (c.Writer == "") != (c.Sequence == 0) {
		return fmt.Errorf("%w: writer %q with sequence %d: give both or neither", ErrBadCommand, c.Writer, c.Sequence)
	}
	names := []struct {
		field, value string
		required     bool
	}{
		{"actor", c.Actor, true}, {"request id", c.RequestID, true},
		{"writer", c.Writer, false}, {"cause's request id", c.Cause.RequestID, false},
	}
	for _, n := range names {
		if err := checkText(n.field, n.value, MaxNameBytes, n.required); err != nil {
			return err
		}
	}
	if err := c.validateKind(); err != nil {
		return err
	}
	return c.validateWrites()
}

// validateKind holds the rule that a command does one kind of thing.
func (c *Command) validateKind() error {
	kinds := 0
	for _, is := range []bool{len(c.Ops) > 0 || len(c.If) > 0, c.Compact != 0, c.NewEpoch != nil, c.Limits != nil, c.Trim != nil} {
		if is {
			kinds++
		}
	}
	switch e := c.NewEpoch; {
	case kinds > 1:
		return fmt.Errorf("%w: carries more than one of ops, compact, new epoch, limits and trim", ErrBadCommand)
	case c.Limits != nil:
		return c.Limits.validate()
	case c.Trim != nil:
		return c.Trim.validate()
	case e != nil && (e.Number == 0 || e.Number >= 1<<(64-counterBits)):
		return fmt.Errorf("%w: epoch number %d is outside 1..%d", ErrBadCommand, e.Number, 1<<(64-counterBits)-1)
	case e != nil:
		return checkText("epoch id", e.ID, MaxNameBytes, true)
	}
	return nil
}

func (c *Command) validateWrites() error {
	if len(c.Ops) > MaxOps || len(c.If) > MaxOps {
		return fmt.Errorf("%w: %d ops and %d preconditions, at most %d each are allowed: split the transaction",
			ErrBadCommand, len(c.Ops), len(c.If), MaxOps)
	}
	for i := range c.If {
		if err := c.If[i].validate(); err != nil {
			return err
		}
	}
	for i := range c.Ops {
		if err := c.Ops[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Precondition) validate() error {
	if err := checkText("precondition's key", p.Key, MaxKeyBytes, true); err != nil {
		return err
	}
	if p.End != "" && (p.End <= p.Key || p.Exists) {
		return fmt.Errorf("%w: a precondition's range ends before it begins, or asks for existence", ErrBadCommand)
	}
	return checkText("precondition's end", p.End, MaxKeyBytes, false)
}

func (o *Op) validate() error {
	if err := checkText("key", o.Key, MaxKeyBytes, true); err != nil {
		return err
	}
	switch {
	case o.Type != OpPut && o.Type != OpDelete:
		return fmt.Errorf("%w: %s: unknown op type %d", ErrBadCommand, o.Key, o.Type)
	case o.Type == OpDelete && len(o.Value) > 0:
		return fmt.Errorf("%w: %s: a delete carries a value", ErrBadCommand, o.Key)
	case len(o.Value) > MaxValueBytes:
		return fmt.Errorf("%w: %s: value of %d bytes, at most %d are allowed", ErrBadCommand, o.Key, len(o.Value), MaxValueBytes)
	case len(o.Note.Diff) > MaxValueBytes:
		return fmt.Errorf("%w: %s: diff of %d bytes, at most %d are allowed", ErrBadCommand, o.Key, len(o.Note.Diff), MaxValueBytes)
	}
	if err := checkText("verb", o.Note.Verb, MaxNameBytes, false); err != nil {
		return err
	}
	return checkText("object", o.Note.Object, MaxKeyBytes, false)
}

// checkText never prints the value: it may be hostile, and long.
func checkText(field, value string, maxBytes int, required bool) error {
	switch {
	case required && value == "":
		return fmt.Errorf("%w: %s is empty", ErrBadCommand, field)
	case len(value) > maxBytes:
		return fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", ErrBadCommand, field, len(value), maxBytes)
	case !utf8.ValidString(value):
		return fmt.Errorf("%w: %s is not UTF-8", ErrBadCommand, field)
	}
	return nil
}
