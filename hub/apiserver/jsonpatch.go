package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// Bounds of a JSON patch, as in Kubernetes: operations, and bytes that all of its copies make together, since a patch of copies alone
// doubles a document with each.
const (
	maxPatchOps    = 10_000
	maxPatchCopies = 3 << 20
)

// unmarshalNumbers keeps numbers as they are written, so that 64-bit integers survive.
func unmarshalNumbers(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}

// unmarshalOptional reads a body that may be empty.
func unmarshalOptional(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.BadRequest.Errorf("request body: %w", err)
	}
	return nil
}

// mergeInto is RFC 7386: objects merge, null removes, everything else replaces. It changes target.
func mergeInto(target any, patch map[string]any) any {
	m, ok := target.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			m[k] = mergeInto(m[k], v)
		default:
			m[k] = v
		}
	}
	return m
}

// patchOps is a JSON patch, RFC 6902.
type patchOps []patchOp

type patchOp struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"` // nil when absent; a null is a value
}

func parseJSONPatch(body []byte) (patchOps, error) {
	var ops patchOps
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, fault.BadRequest.Errorf("the JSON patch is not a list of operations: %w", err)
	}
	if len(ops) > maxPatchOps {
		return nil, fault.TooLarge.Errorf("the JSON patch has %d operations; the limit is %d", len(ops), maxPatchOps)
	}
	for i, o := range ops {
		if err := o.check(); err != nil {
			return nil, fault.BadRequest.Errorf("JSON patch operation %d: %w", i, err)
		}
	}
	return ops, nil
}

func (o patchOp) check() error {
	if o.Path == nil {
		return errors.New("path is missing")
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil {
			return errors.New("value is missing")
		}
	case "move", "copy":
		if o.From == nil {
			return errors.New("from is missing")
		}
	case "remove":
	default:
		return fmt.Errorf("op %q: want add, remove, replace, move, copy or test", clip(o.Op))
	}
	return nil
}

// read reports whether an operation depends on a value of the document.
func (ops patchOps) read() bool {
	return slices.ContainsFunc(ops, func(o patchOp) bool { return o.Op == "test" || o.Op == "copy" || o.Op == "move" })
}

// apply does all operations in order, or none that shows: an error means that the document is not used.
func (ops patchOps) apply(doc any) (any, error) {
	copied := 0
	for i, o := range ops {
		var err error
		if doc, err = o.apply(doc, &copied); err != nil {
			return nil, fault.Invalid.Errorf("JSON patch operation %d (%s %s): %w", i, o.Op, clip(*o.Path), err)
		}
	}
	return doc, nil
}

func (o patchOp) apply(doc any, copied *int) (any, error) {
	path, err := parsePointer(*o.Path)
	if err != nil {
		return nil, err
	}
	switch o.Op {
	case "remove":
		return editAt(doc, path, remove)
	case "move", "copy":
		return o.transfer(doc, path, copied)
	}
	var value any
	if err := unmarshalNumbers(o.Value, &value); err != nil {
		return nil, err
	}
	switch o.Op {
	case "add":
		return editAt(doc, path, add(value))
	case "replace":
		return editAt(doc, path, replace(value))
	}
	have, err := lookUp(doc, path)
	if err != nil {
		return nil, err
	}
	if !sameJSON(have, value) {
		return nil, errors.New("the value is another one")
	}
	return doc, nil
}

func (o patchOp) transfer(doc any, path []string, copied *int) (any, error) {
	from, err := parsePointer(*o.From)
	if err != nil {
		return nil, err
	}
	value, err := lookUp(doc, from)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if o.Op == "move" {
		if strings.HasPrefix(*o.Path, *o.From+"/") {
			return nil, errors.New("a value cannot be moved into itself")
		}
		if doc, err = editAt(doc, from, remove); err != nil {
			return nil, err
		}
		return editAt(doc, path, add(value))
	}
	fresh, err := json.Marshal(value) // a copy shares nothing with its source
	if err != nil {
		return nil, err
	}
	if *copied += len(fresh); *copied > maxPatchCopies {
		return nil, fmt.Errorf("the copies come to more than %d bytes", maxPatchCopies)
	}
	var twin any
	if err := unmarshalNumbers(fresh, &twin); err != nil {
		return nil, err
	}
	return editAt(doc, path, add(twin))
}

// parsePointer reads a JSON pointer, RFC 6901; the whole document has no parts.
func parsePointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, errors.New("a path starts with a slash")
	}
	parts := strings.Split(s[1:], "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts, nil
}

var errNoPath = errors.New("there is nothing at this path")

func lookUp(doc any, path []string) (any, error) {
	for _, p := range path {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[p]
			if !ok {
				return nil, errNoPath
			}
			doc = v
		case []any:
			i, err := index(p, len(d)-1)
			if err != nil {
				return nil, err
			}
			doc = d[i]
		default:
			return nil, errNoPath
		}
	}
	return doc, nil
}

// index reads an array index from 0 to last.
func index(s string, last int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || i > last || (len(s) > 1 && s[0] == '0') {
		return 0, errNoPath
	}
	return i, nil
}

// change does one thing to a container at a key and returns the container.
type change struct {
	inMap  func(m map[string]any, key string) error
	inList func(l []any, key string) ([]any, error)
	whole  func() (any, error) // for the empty path
}

// editAt goes down to the last container, changes it, and puts lists, which may have grown, back on the way up.
func editAt(doc any, path []string, c change) (any, error) {
	if len(path) == 0 {
		return c.whole()
	}
	key, rest := path[0], path[1:]
	switch d := doc.(type) {
	case map[string]any:
		if len(rest) == 0 {
			return d, c.inMap(d, key)
		}
		sub, ok := d[key]
		if !ok {
			return nil, errNoPath
		}
		sub, err := editAt(sub, rest, c)
		d[key] = sub
		return d, err
	case []any:
		if len(rest) == 0 {
			return c.inList(d, key)
		}
		i, err := index(key, len(d)-1)
		if err != nil {
			return nil, err
		}
		d[i], err = editAt(d[i], rest, c)
		return d, err
	}
	return nil, errNoPath
}

func add(v any) change {
	return change{
		inMap: func(m map[string]any, key string) error { m[key] = v; return nil },
		inList: func(l []any, key string) ([]any, error) {
			if key == "-" {
				return append(l, v), nil
			}
			i, err := index(key, len(l))
			if err != nil {
				return nil, err
			}
			return append(l[:i:i], append([]any{v}, l[i:]...)...), nil
		},
		whole: func() (any, error) { return v, nil },
	}
}

func replace(v any) change {
	return change{
		inMap: func(m map[string]any, key string) error {
			if _, ok := m[key]; !ok {
				return errNoPath
			}
			m[key] = v
			return nil
		},
		inList: func(l []any, key string) ([]any, error) {
			i, err := index(key, len(l)-1)
			if err != nil {
				return nil, err
			}
			l[i] = v
			return l, nil
		},
		whole: func() (any, error) { return v, nil },
	}
}

// remove is a change without a value. It is a variable only because a change is a set of functions.
var remove = change{
	inMap: func(m map[string]any, key string) error {
		if _, ok := m[key]; !ok {
			return errNoPath
		}
		delete(m, key)
		return nil
	},
	inList: func(l []any, key string) ([]any, error) {
		i, err := index(key, len(l)-1)
		if err != nil {
			return nil, err
		}
		return append(l[:i:i], l[i+1:]...), nil
	},
	whole: func() (any, error) { return nil, errors.New("the whole object cannot be removed by a patch") },
}

// sameJSON compares by value: 1, 1.0 and 1e0 are one number.
func sameJSON(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !sameJSON(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameJSON(x[i], y[i]) {
				return false
			}
		}
		return true
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x, y)
	}
	return a == b
}

func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	const longest = 64 // digits; a longer exponent would be a cheap way to burn time
	if len(a) > longest || len(b) > longest || strings.ContainsAny(string(a+b), "eE") {
		x, xerr := a.Float64()
		y, yerr := b.Float64()
		return xerr == nil && yerr == nil && x == y
	}
	x, xok := new(big.Rat).SetString(string(a))
	y, yok := new(big.Rat).SetString(string(b))
	return xok && yok && x.Cmp(y) == 0
}
