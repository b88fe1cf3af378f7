package secretenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame bounds the variables of one container, in bytes.
const MaxFrame = 1 << 20

const magic = "DRSENV01"

// Var is one variable in clear. It does not print.
type Var struct {
	Name  string
	Value []byte
}

func (v Var) String() string   { return v.Name + "=(secret)" }
func (v Var) GoString() string { return v.String() }

// encode makes a frame: magic, payload length, SHA-256, payload; the payload is name, NUL, value, NUL for each variable.
func encode(vars []Var) ([]byte, error) {
	var p []byte
	for _, v := range vars {
		if v.Name == "" || bytes.ContainsAny([]byte(v.Name), "=\x00") {
			return nil, fmt.Errorf("secret variable %q: not a name", v.Name)
		}
		if bytes.IndexByte(v.Value, 0) >= 0 {
			return nil, fmt.Errorf("secret variable %s: its value has a NUL byte, which no environment can hold", v.Name)
		}
		p = append(p, v.Name...)
		p = append(p, 0)
		p = append(p, v.Value...)
		p = append(p, 0)
	}
	if len(p) > MaxFrame {
		return nil, fmt.Errorf("secret variables have %d bytes, the limit is %d", len(p), MaxFrame)
	}
	sum := sha256.Sum256(p)
	out := append([]byte(magic), binary.BigEndian.AppendUint32(nil, uint32(len(p)))...)
	out = append(out, sum[:]...)
	return append(out, p...), nil
}

// decode reads one frame. Whatever is not a whole frame is an error.
func decode(r io.Reader) ([]Var, error) {
	head := make([]byte, len(magic)+4+sha256.Size)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("frame header: %w", err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, errors.New("frame header: wrong magic")
	}
	n := binary.BigEndian.Uint32(head[len(magic):])
	if n > MaxFrame {
		return nil, fmt.Errorf("frame of %d bytes, the limit is %d", n, MaxFrame)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	if sum := sha256.Sum256(p); !bytes.Equal(sum[:], head[len(magic)+4:]) {
		return nil, errors.New("frame: checksum does not match")
	}
	return split(p)
}

func split(p []byte) ([]Var, error) {
	var out []Var
	for len(p) > 0 {
		name, rest, ok := bytes.Cut(p, []byte{0})
		value, next, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 {
			return nil, errors.New("frame: variables are not terminated")
		}
		out, p = append(out, Var{string(name), value}), next
	}
	return out, nil
}
