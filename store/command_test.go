package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
)

func full() *Command {
	return &Command{
		Level: 1, Term: 3, Actor: "user:alice", RequestID: "r1", Writer: "hub:h1", Sequence: 9,
		Cause: Cause{Revision: MakeRevision(1, 4), RequestID: "r0"}, Time: 1234567890,
		If: []Precondition{{Key: "a"}, {Key: "b", ModRevision: 7}, {Key: "c", Exists: true}, {Key: "d/", End: "d0", ModRevision: 7}},
		Ops: []Op{
			{Type: OpPut, Key: "a", Value: []byte("v"), Note: Note{Verb: "create", Object: "Workload default/a", Diff: []byte("+")}},
			{Type: OpDelete, Key: "b"},
		},
	}
}

func TestACommandIsWhatItWasEncodedFrom(t *testing.T) {
	for _, c := range []*Command{
		full(),
		{Level: 1, Actor: "hub:h1", RequestID: "r", Compact: 9},
		{Level: 1, Actor: "hub:h1", RequestID: "r", NewEpoch: &Epoch{Number: 2, ID: "x"}},
	} {
		b, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCommand(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	with := func(change func(c *Command)) *Command { c := full(); change(c); return c }
	for what, c := range map[string]*Command{
		"level is 0":        with(func(c *Command) { c.Level = 0 }),
		"actor is empty":    with(func(c *Command) { c.Actor = "" }),
		"request id is emp": with(func(c *Command) { c.RequestID = "" }),
		"actor of 257":      with(func(c *Command) { c.Actor = strings.Repeat("a", MaxNameBytes+1) }),
		"not UTF-8":         with(func(c *Command) { c.Ops[0].Key = "\xff" }),
		"both or neither":   with(func(c *Command) { c.Sequence = 0 }),
		"more than one":     with(func(c *Command) { c.Compact = 1 }),
		"unknown op type":   with(func(c *Command) { c.Ops[0].Type = 3 }),
		"before it begins":  with(func(c *Command) { c.If[0].End = "A" }),
		"carries a value":   with(func(c *Command) { c.Ops[0].Type = OpDelete }),
		"value of 1048577":  with(func(c *Command) { c.Ops[0].Value = make([]byte, MaxValueBytes+1) }),
		"diff of 1048577":   with(func(c *Command) { c.Ops[0].Note.Diff = make([]byte, MaxValueBytes+1) }),
		"key of 1025":       with(func(c *Command) { c.Ops[0].Key = strings.Repeat("k", MaxKeyBytes+1) }),
		"65537 ops":         with(func(c *Command) { c.Ops = make([]Op, MaxOps+1) }),
		"epoch number 0":    {Level: 1, Actor: "a", RequestID: "r", NewEpoch: &Epoch{ID: "x"}},
		"epoch number 1677": {Level: 1, Actor: "a", RequestID: "r", NewEpoch: &Epoch{Number: 1 << 24, ID: "x"}},
	} {
		_, err := EncodeCommand(c)
		if !errors.Is(err, ErrBadCommand) || !strings.Contains(err.Error(), what) {
			t.Errorf("encode: got error %v, want ErrBadCommand that says %q", err, what)
		}
		raw, err := cbor.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeCommand(raw); !errors.Is(err, ErrBadCommand) {
			t.Errorf("decode of %q: got error %v, want ErrBadCommand", what, err)
		}
	}
}

func TestDecodingIsStrict(t *testing.T) {
	good, err := EncodeCommand(full())
	if err != nil {
		t.Fatal(err)
	}
	fields := map[int]any{1: 1, 3: "a", 4: "r", 8: 0}
	marshal := func(key int, value any) []byte {
		m := map[int]any{key: value}
		for k, v := range fields {
			if _, ok := m[k]; !ok {
				m[k] = v
			}
		}
		b, err := cbor.CoreDetEncOptions().EncMode()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := b.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for what, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"unknown field":               {marshal(99, 1), ErrBadCommand},
		"bytes after the end":         {append(bytes.Clone(good), 0), ErrBadCommand},
		"cut off":                     {good[:len(good)-1], ErrBadCommand},
		"too large":                   {make([]byte, MaxCommandBytes+1), ErrBadCommand},
		"field twice":                 {[]byte("\xa5\x01\x01\x01\x01\x03\x61a\x04\x61r\x08\x00"), ErrBadCommand},
		"newer level":                 {marshal(1, FormatLevel+1), ErrUnknownLevel},
		"newer level, unknown fields": {append([]byte("\xa2\x01\x02\x18\x63"), 1), ErrUnknownLevel},
	} {
		if _, err := DecodeCommand(c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v, want %v", what, err, c.want)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	good, err := EncodeCommand(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommand(b)
		if err != nil {
			if c != nil || !errors.Is(err, ErrBadCommand) && !errors.Is(err, ErrUnknownLevel) {
				t.Fatalf("got %v with error %v, want none and a refusal", c, err)
			}
			return
		}
		// What is let in can be written, and is read back the same.
		again, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		c2, err := DecodeCommand(again)
		if err != nil {
			t.Fatal(err)
		}
		once, err := EncodeCommand(c2)
		if err != nil || !bytes.Equal(once, again) {
			t.Fatalf("got %x, %v, want %x", once, err, again)
		}
	})
}

func TestPrefixEndIsTheFirstKeyPastThePrefix(t *testing.T) {
	for prefix, want := range map[string]string{"a/": "a0", "a\xff": "b", "": "\xff", "\xff\xff": "\xff"} {
		if got := PrefixEnd(prefix); got != want {
			t.Errorf("PrefixEnd(%q): got %q, want %q", prefix, got, want)
		}
	}
}

func TestRevisionsAreEpochAndCounter(t *testing.T) {
	r := MakeRevision(2, 5)
	if r.Epoch() != 2 || r.Counter() != 5 || r.Next() != MakeRevision(2, 6) || r <= MakeRevision(1, 1<<40-1) {
		t.Errorf("got epoch %d counter %d next %d of %d", r.Epoch(), r.Counter(), r.Next(), r)
	}
	back, err := ParseRevision(r.String())
	if err != nil || back != r {
		t.Errorf("got %d, %v back from %q, want %d", back, err, r, r)
	}
	if zero, err := ParseRevision(""); zero != 0 || err != nil {
		t.Errorf("got %d, %v for the empty string, want 0", zero, err)
	}
	if _, err := ParseRevision("-1"); err == nil {
		t.Error("got no error for -1")
	}
}
