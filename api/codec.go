package api

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/drover-fleet/drover/api/fault"
)

// DecodeJSON reads one object of kind k (nil: the kind it names) strictly: unknown and duplicate fields are errors. Status and
// every other field are taken as they come; defaults and validation are the caller's. Errors are TooLarge or BadRequest.
func DecodeJSON(k *Kind, data []byte) (Object, error) { return decodeJSON(k, data, nil) }

// DecodeJSONWarn is DecodeJSON, but unknown and duplicate fields are left out and named in warnings.
func DecodeJSONWarn(k *Kind, data []byte) (Object, []string, error) {
	var warnings []string
	obj, err := decodeJSON(k, data, func(text string) { warnings = append(warnings, text) })
	return obj, warnings, err
}

func decodeJSON(k *Kind, data []byte, warn func(string)) (Object, error) {
	if len(data) > MaxObject {
		return nil, fault.SizeLimit("object", int64(len(data)), MaxObject)
	}
	root, err := parseJSON(data)
	if err != nil {
		f := err.(*parseFailure) //nolint:errorlint // parseJSON returns nothing else
		return nil, fault.BadRequest.Errorf("the body %s (line %d, column %d)", f.message, f.line, f.col)
	}
	w := &walker{json: true, warn: warn}
	obj := w.typed(root, k)
	if len(w.errs) > 0 {
		return nil, badBody(w.errs)
	}
	if kind, ok := KindFor(obj); ok {
		*obj.Type() = TypeMeta{kind.APIVersion, kind.Kind}
	}
	return obj, nil
}

// badBody is the errors without lines: a body has no lines that its sender knows.
func badBody(errs DecodeErrors) error {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.text()
	}
	e := faultOf(fault.BadRequest, errs)
	e.Message = "strict decoding error: " + strings.Join(texts, "; ")
	return e
}

// Encode is the object as JSON: fields in the order of the types, map keys sorted, apiVersion and kind filled in.
func Encode(obj Object) ([]byte, error) {
	k, ok := KindFor(obj)
	if !ok {
		return nil, fault.Internal.Errorf("encode %T: no kind of this release", obj)
	}
	if *obj.Type() != (TypeMeta{k.APIVersion, k.Kind}) {
		obj = obj.DeepCopyObject()
		*obj.Type() = TypeMeta{k.APIVersion, k.Kind}
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fault.Internal.Errorf("encode %s %q: %w", k.Kind, obj.Meta().Name, err)
	}
	return b, nil
}

// EncodeYAML is the object as YAML that [DecodeManifests] reads back (once its status is taken out), in the order of Encode.
// Strings that a reader of YAML 1.1 would take for something else are quoted.
func EncodeYAML(obj Object) ([]byte, error) {
	b, err := Encode(obj)
	if err != nil {
		return nil, err
	}
	return JSONToYAML(b)
}

// JSONToYAML writes any JSON value as YAML, in the order of its fields.
func JSONToYAML(data []byte) ([]byte, error) {
	n, err := parseJSON(data)
	if err != nil {
		return nil, fault.Internal.Errorf("JSON to YAML: %w", err)
	}
	b, err := yaml.Dump(n.yaml(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fault.Internal.Errorf("JSON to YAML: %w", err)
	}
	return b, nil
}

// yaml is the node as the YAML library writes it.
func (n *node) yaml() *yaml.Node {
	switch n.kind {
	case nullNode:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case listNode:
		y := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range n.items {
			y.Content = append(y.Content, item.yaml())
		}
		return flowWhenEmpty(y)
	case mapNode:
		y := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, f := range n.fields {
			y.Content = append(y.Content, f.key.yaml(), f.value.yaml())
		}
		return flowWhenEmpty(y)
	}
	if !n.quoted {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: n.text}
	}
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: n.text}
	switch {
	case isTrap(n.text) || isNull(n.text) || n.text == "<<" || n.text == "=":
		y.Style = yaml.DoubleQuotedStyle
	case strings.Contains(n.text, "\n") && plainLines(n.text):
		y.Style = yaml.LiteralStyle
	}
	return y
}

func flowWhenEmpty(y *yaml.Node) *yaml.Node {
	if len(y.Content) == 0 {
		y.Style = yaml.FlowStyle
	}
	return y
}

// plainLines reports a text that a literal block keeps as it is: no control characters, no blank at a line's end or at the
// beginning.
func plainLines(s string) bool {
	if s[0] == ' ' || s[0] == '\n' || s[0] == '\t' {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimRight(line, " \t") != line {
			return false
		}
		for _, r := range line {
			if r != '\t' && !strconv.IsPrint(r) {
				return false
			}
		}
	}
	return true
}
