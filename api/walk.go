package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// walker fills Go values from nodes by reflection over the types of this package, collecting every error with its place.
type walker struct {
	file   string
	errs   DecodeErrors
	places map[string]*node // by path, to place what validation finds; nil = not wanted
	json   bool             // null means absent everywhere, as in Kubernetes
	secret bool             // never repeat a value in a message
	// warn, when not nil, takes unknown and duplicate fields instead of errs.
	warn func(string)
}

func (w *walker) fail(n *node, path, message, hint string) {
	w.errs = append(w.errs, &DecodeError{File: w.file, Line: n.line, Col: n.col, Path: path, Message: message, Hint: hint})
}

// soft is an error that a lenient reader only warns of.
func (w *walker) soft(n *node, path, message, hint string) {
	if w.warn == nil {
		w.fail(n, path, message, hint)
		return
	}
	e := DecodeError{Path: path, Message: message, Hint: hint}
	w.warn(e.text())
}

// got shows the value that stands there, unless it may be secret.
func (w *walker) got(n *node) string {
	if w.secret && n.kind == scalarNode {
		return "a value that is not shown"
	}
	return n.describe()
}

// structField is one JSON field of a struct type.
type structField struct {
	name  string
	index []int
}

// structFields caches the fields by type: types never change.
var structFields sync.Map // reflect.Type to []structField

func fieldsOf(t reflect.Type) []structField {
	if f, ok := structFields.Load(t); ok {
		return f.([]structField)
	}
	var fields []structField
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "inline" {
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, structField{inner.name, append([]int{i}, inner.index...)})
			}
			continue
		}
		if name != "" && name != "-" {
			fields = append(fields, structField{name, []int{i}})
		}
	}
	structFields.Store(t, fields)
	return fields
}

func isUnmarshaler(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// value fills v, which can be set, from n.
func (w *walker) value(v reflect.Value, n *node, path string) {
	if w.places != nil {
		w.places[path] = n
	}
	switch {
	case v.Type() == reflect.TypeFor[RawJSON]():
		w.raw(v, n)
	case n.kind == nullNode:
		w.null(v, n, path)
	case v.Type() == reflect.TypeFor[Quantity]():
		w.quantity(v, n, path)
	case isUnmarshaler(v.Type()):
		w.unmarshal(v, n, path)
	case v.Kind() == reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		w.value(p.Elem(), n, path)
		v.Set(p)
	case v.Kind() == reflect.Struct:
		w.object(v, n, path)
	case v.Kind() == reflect.Map:
		w.mapping(v, n, path)
	case v.Type() == reflect.TypeFor[[]byte]():
		w.base64(v, n, path)
	case v.Kind() == reflect.Slice:
		w.list(v, n, path)
	default:
		w.scalar(v, n, path)
	}
}

// null leaves v as it is: the field is as good as absent. In YAML an empty string, number or bool is more likely a slip.
func (w *walker) null(v reflect.Value, n *node, path string) {
	if w.json {
		return
	}
	switch v.Kind() {
	case reflect.String:
		w.fail(n, path, "has no value: want a string", "write \"\" for an empty string, quote it (\""+n.text+"\") if it is a word, or remove the line")
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.fail(n, path, "has no value", "give one or remove the line")
	}
}

func (w *walker) object(v reflect.Value, n *node, path string) {
	if n.kind != mapNode {
		w.fail(n, path, "want a map, got "+w.got(n), "")
		return
	}
	fields := fieldsOf(v.Type())
	seen := make(map[string]*node, len(n.fields))
	for _, f := range n.fields {
		name := f.key.text
		at := join2(path, name)
		if before := seen[name]; before != nil {
			w.duplicate(f.key, before, at)
			continue
		}
		seen[name] = f.key
		if i := indexOfField(fields, name); i >= 0 {
			w.value(v.FieldByIndex(fields[i].index), f.value, at)
			continue
		}
		w.unknown(v.Type(), fields, f.key, path)
	}
}

func indexOfField(fields []structField, name string) int {
	for i := range fields {
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

func join2(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (w *walker) duplicate(key, before *node, path string) {
	w.soft(key, path, fmt.Sprintf("is there twice: also at line %d, column %d", before.line, before.col), "keep one")
}

// unknown explains a field that does not exist: not of this release, misspelt, or simply unknown.
func (w *walker) unknown(t reflect.Type, fields []structField, key *node, path string) {
	at := join2(path, clip(key.text))
	if knownElsewhere(t, key.text) {
		w.soft(key, at, "not supported by this release of Drover", "remove it")
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	hint := "fields here are " + strings.Join(names, ", ")
	if n := nearest(key.text, names); n != "" {
		hint = "did you mean " + n + "?"
	}
	if len(names) == 0 {
		hint = "no fields are known here"
	}
	w.soft(key, at, "unknown field", hint)
}

func (w *walker) list(v reflect.Value, n *node, path string) {
	if n.kind != listNode {
		w.fail(n, path, "want a list, got "+w.got(n), "begin each element with \"- \"")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		at := path + index(i)
		if item.kind == nullNode && (w.json || v.Type().Elem().Kind() == reflect.Struct) {
			w.fail(item, at, "an element of the list is empty", "remove it")
			continue
		}
		w.value(out.Index(i), item, at)
	}
	v.Set(out)
}

func (w *walker) mapping(v reflect.Value, n *node, path string) {
	if n.kind != mapNode {
		w.fail(n, path, "want a map, got "+w.got(n), "")
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.fields))
	seen := make(map[string]*node, len(n.fields))
	for _, f := range n.fields {
		at := path + key(f.key.text)
		if before := seen[f.key.text]; before != nil {
			w.duplicate(f.key, before, at)
			continue
		}
		seen[f.key.text] = f.key
		if !f.key.quoted && !w.json && isTrap(f.key.text) {
			w.fail(f.key, at, fmt.Sprintf("the key %s is read by other tools as a bool, null or number", f.key.describe()), "quote it: \""+clip(f.key.text)+"\"")
			continue
		}
		if f.value.kind == nullNode && w.json {
			w.fail(f.value, at, "is null", "give a value or remove the key")
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		w.value(e, f.value, at)
		out.SetMapIndex(reflect.ValueOf(f.key.text), e)
	}
	v.Set(out)
}
