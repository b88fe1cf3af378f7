package api

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// Size limits in bytes.
const (
	MaxObject      = 1 << 20
	MaxFile        = 8 << 20
	MaxTransaction = 8 << 20
)

// maxErrors is where the reading of a file ends: after the document with the hundredth error.
const maxErrors = 100

// Item is one object of a manifest, without defaults: only what the file gives.
type Item struct {
	Object Object
	File   string
	Line   int // at which the object begins
	places map[string]*node
}

// Place is the line and column that a field error of the object speaks of: of the field itself, else of the nearest field
// around it.
func (it Item) Place(path string) (line, col int) {
	for {
		if n := it.places[path]; n != nil {
			return n.line, n.col
		}
		i := strings.LastIndexAny(path, ".[")
		if i <= 0 {
			break
		}
		path = path[:i]
	}
	if n := it.places[""]; n != nil {
		return n.line, n.col
	}
	return it.Line, 1
}

// DecodeManifests reads the objects of a file, YAML (any number of documents) or JSON, strictly, and validates them as they
// will stand with defaults. A v1 List stands for its items. name is the file's name in errors. The error is a fault (Invalid or
// TooLarge) whose text has one line for each thing wrong, FILE:LINE:COL: path: message; hint; the [DecodeErrors] are in its chain.
func DecodeManifests(name string, data []byte) ([]Item, error) {
	d := manifests{file: name}
	if len(data) > MaxFile {
		d.whole(fmt.Sprintf("the file is %d bytes; the limit is %d bytes (8 MiB)", len(data), MaxFile), "split it")
		return nil, d.fault(fault.TooLarge)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	d.read(data)
	if len(d.errs) == 0 && len(d.items) == 0 {
		d.whole("the file has no object in it", "write one, or leave the file out")
	}
	if len(d.errs) == 0 {
		d.errs = append(d.errs, CheckDuplicates(d.items)...)
	}
	if len(d.errs) > 0 {
		class := fault.Invalid
		if d.tooLarge {
			class = fault.TooLarge
		}
		return nil, d.fault(class)
	}
	return d.items, nil
}

// manifests is the reading of one file.
type manifests struct {
	file     string
	items    []Item
	errs     DecodeErrors
	tooLarge bool
}

func (d *manifests) whole(message, hint string) {
	d.errs = append(d.errs, &DecodeError{File: d.file, Message: message, Hint: hint})
}

func (d *manifests) fault(class fault.Class) error {
	// By place: validation comes after decoding, object by object.
	slices.SortStableFunc(d.errs, func(a, b *DecodeError) int { return a.Line - b.Line })
	return faultOf(class, d.errs)
}

func faultOf(class fault.Class, errs DecodeErrors) *fault.Error {
	e := &fault.Error{Class: class, Message: errs.Error(), Cause: errs}
	for _, x := range errs {
		c := fault.Cause{Field: x.Path, Message: x.Message}
		if x.Hint != "" {
			c.Message += "; " + x.Hint
		}
		e.Details.Causes = append(e.Details.Causes, c)
	}
	return e
}

func (d *manifests) read(data []byte) {
	if looksJSON(d.file, data) {
		d.document(yamlDocument{data, 1}, func() (*node, error) { return parseJSON(data) })
		return
	}
	for _, doc := range splitYAML(data) {
		if len(d.errs) > maxErrors {
			d.errs = append(d.errs, &DecodeError{File: d.file, Line: doc.line, Col: 1, Message: fmt.Sprintf("%d errors up to here; the rest of the file was not read", len(d.errs))})
			return
		}
		if !doc.blank() {
			d.document(doc, func() (*node, error) { return parseYAML(doc) })
		}
	}
}

// looksJSON reports a .json file, or one object in braces from its first to its last character; other flow style is YAML.
func looksJSON(name string, data []byte) bool {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return false
	}
	return strings.HasSuffix(strings.ToLower(name), ".json") || data[0] == '{' && len(data) > 1 && bytes.HasPrefix(bytes.TrimSpace(data[1:]), []byte(`"`)) && data[len(data)-1] == '}'
}

// document reads one document; its size is checked before it is parsed. A List may be as large as a file: its items are checked
// one by one.
func (d *manifests) document(doc yamlDocument, parse func() (*node, error)) {
	list := isList(doc.text)
	if len(doc.text) > MaxObject && !list {
		d.large(doc.line, len(doc.text))
		return
	}
	root, err := parse()
	if err != nil {
		f := err.(*parseFailure) //nolint:errorlint // the parsers return nothing else
		d.errs = append(d.errs, &DecodeError{File: d.file, Line: f.line, Col: f.col, Message: f.message, Hint: f.hint})
		return
	}
	if root.kind == mapNode && isListNode(root) {
		d.list(root)
		return
	}
	if list && len(doc.text) > MaxObject {
		d.large(doc.line, len(doc.text))
		return
	}
	d.object(root)
}

func (d *manifests) large(line, size int) {
	d.tooLarge = true
	d.errs = append(d.errs, &DecodeError{
		File: d.file, Line: line, Col: 1,
		Message: fmt.Sprintf("the object is %d bytes; the limit is %d bytes (1 MiB)", size, MaxObject), Hint: "split it",
	})
}

// isList reports, without parsing, a text that says kind: List.
func isList(text []byte) bool {
	for line := range bytes.Lines(text) {
		s := strings.Map(func(r rune) rune {
			if strings.ContainsRune(" \t\r\n\"',{}", r) {
				return -1
			}
			return r
		}, string(line[:min(len(line), 256)]))
		if s == "kind:List" || strings.HasPrefix(s, "apiVersion:v1kind:List") || strings.HasPrefix(s, "kind:ListapiVersion:v1") {
			return true
		}
	}
	return false
}

func isListNode(root *node) bool {
	kind, version := root.field("kind"), root.field("apiVersion")
	return kind != nil && version != nil && kind.text == "List" && version.text == CoreV1
}

func (d *manifests) list(root *node) {
	for _, f := range root.fields {
		switch f.key.text {
		case "apiVersion", "kind", "metadata":
		case "items":
			if f.value.kind != listNode {
				d.fail(f.value, "items", "want a list, got "+f.value.describe(), "")
				continue
			}
			for _, item := range f.value.items {
				if size := item.size(); size > MaxObject {
					d.large(item.line, size)
					continue
				}
				d.object(item)
			}
		default:
			d.fail(f.key, clip(f.key.text), "unknown field", "a List has apiVersion, kind, metadata and items")
		}
	}
}

// size is about what the node takes as text.
func (n *node) size() int {
	size := len(n.text) + 2
	for _, item := range n.items {
		size += item.size()
	}
	for _, f := range n.fields {
		size += f.key.size() + f.value.size()
	}
	return size
}

func (d *manifests) fail(n *node, path, message, hint string) {
	d.errs = append(d.errs, &DecodeError{File: d.file, Line: n.line, Col: n.col, Path: path, Message: message, Hint: hint})
}

func (d *manifests) object(root *node) {
	w := &walker{file: d.file, places: map[string]*node{}}
	obj := w.typed(root, nil)
	d.errs = append(d.errs, w.errs...)
	if obj == nil {
		return
	}
	before := len(d.errs)
	d.refuseStatus(root, obj)
	item := Item{Object: obj, File: d.file, Line: root.line, places: w.places}
	if len(w.errs) == 0 && len(d.errs) == before {
		d.validate(item)
	}
	d.items = append(d.items, item)
}

// refuseStatus refuses a status that says something: a user's write never changes it, and ignoring it would be a lie.
func (d *manifests) refuseStatus(root *node, obj Object) {
	k, _ := KindFor(obj)
	n := root.field("status")
	if n == nil || !k.HasStatus || n.kind == nullNode || n.kind == mapNode && len(n.fields) == 0 {
		return
	}
	d.fail(n, "status", "is written by Drover, not by manifests", "remove it")
}

func (d *manifests) validate(item Item) {
	obj := item.Object.DeepCopyObject()
	Default(obj)
	for _, e := range Validate(obj) {
		line, col := item.Place(e.Path)
		d.errs = append(d.errs, &DecodeError{File: d.file, Line: line, Col: col, Path: e.Path, Message: e.Message})
	}
}

// CheckDuplicates finds objects that are there twice, in one file or in several.
func CheckDuplicates(items []Item) DecodeErrors {
	var errs DecodeErrors
	seen := map[Ref]Item{}
	for _, it := range items {
		ref, _ := RefOf(it.Object)
		before, twice := seen[ref]
		if !twice {
			seen[ref] = it
			continue
		}
		line, col := it.Place("metadata.name")
		at, _ := before.Place("metadata.name")
		errs = append(errs, &DecodeError{
			File: it.File, Line: line, Col: col, Path: "metadata.name",
			Message: fmt.Sprintf("%s is there twice: also at %s:%d", ref, before.File, at), Hint: "keep one",
		})
	}
	return errs
}

// typed decodes an object of the kind it names; want, when not nil, is the only kind accepted. It returns nil when the kind is
// not known.
func (w *walker) typed(root *node, want *Kind) Object {
	if root.kind != mapNode {
		w.fail(root, "", "want an object with apiVersion, kind and metadata, got "+root.describe(), "")
		return nil
	}
	k := w.kindOf(root, want)
	if k == nil {
		return nil
	}
	w.secret = k == KindSecret
	obj := k.New()
	w.value(reflect.ValueOf(obj).Elem(), root, "")
	return obj
}

// kindOf finds the kind that the object names. Without apiVersion and kind it is the wanted one.
func (w *walker) kindOf(root *node, want *Kind) *Kind {
	version, kind := root.field("apiVersion"), root.field("kind")
	if want != nil && version == nil && kind == nil {
		return want
	}
	missing := func(name string, n *node) bool {
		if n != nil && n.text != "" && n.kind == scalarNode {
			return false
		}
		w.fail(root, name, "is missing", "an object begins with apiVersion: "+FleetV1+" and its kind, as kind: Workload")
		return true
	}
	if noVersion, noKind := missing("apiVersion", version), missing("kind", kind); noVersion || noKind {
		return nil
	}
	k, ok := KindOf(version.text, kind.text)
	switch {
	case !ok:
		w.unknownKind(version, kind)
		return nil
	case want != nil && k != want:
		w.fail(kind, "kind", fmt.Sprintf("is %s of %s, want %s of %s", k.Kind, k.APIVersion, want.Kind, want.APIVersion), "")
		return nil
	}
	return k
}

func (w *walker) unknownKind(version, kind *node) {
	var kinds, versions []string
	for _, k := range Kinds() {
		if k.Kind == kind.text {
			w.fail(version, "apiVersion", fmt.Sprintf("%s has no kind %s", version.describe(), k.Kind), "want "+k.APIVersion)
			return
		}
		kinds = append(kinds, k.Kind)
		if !slices.Contains(versions, k.APIVersion) {
			versions = append(versions, k.APIVersion)
		}
	}
	if !slices.Contains(versions, version.text) {
		w.fail(version, "apiVersion", version.describe()+" is not known", "want "+strings.Join(versions, " or "))
	}
	hint := "kinds are " + strings.Join(kinds, ", ")
	if n := nearest(kind.text, kinds); n != "" {
		hint = "did you mean " + n + "?"
	}
	w.fail(kind, "kind", kind.describe()+" is not known", hint)
}
