package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// scalar fills a string, bool or integer.
func (w *walker) scalar(v reflect.Value, n *node, path string) {
	switch v.Kind() {
	case reflect.String:
		w.text(v, n, path)
	case reflect.Bool:
		w.boolean(v, n, path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.integer(v, n, path)
	default:
		panic(fmt.Sprintf("api: field %s has type %s, which manifests do not have", path, v.Type()))
	}
}

func (w *walker) text(v reflect.Value, n *node, path string) {
	switch {
	case n.kind != scalarNode:
		w.fail(n, path, "want a string, got "+w.got(n), "")
	case !n.quoted && (w.json || isTrap(n.text)):
		hint := "quote it: \"" + clip(n.text) + "\""
		if w.secret {
			hint = "quote it"
		}
		w.fail(n, path, "want a string, got "+w.got(n)+", which is a bool or a number", hint)
	default:
		v.SetString(n.text)
	}
}

func (w *walker) boolean(v reflect.Value, n *node, path string) {
	low := strings.ToLower(n.text)
	switch {
	case n.kind != scalarNode:
		w.fail(n, path, "want true or false, got "+w.got(n), "")
	case n.quoted && (low == "true" || low == "false"):
		w.fail(n, path, "want true or false, got a string", "remove the quotes")
	case !n.quoted && (n.text == "true" || n.text == "false"):
		v.SetBool(n.text == "true")
	default:
		w.fail(n, path, "want true or false, got "+w.got(n), "")
	}
}

func (w *walker) integer(v reflect.Value, n *node, path string) {
	if n.kind != scalarNode {
		w.fail(n, path, "want a number, got "+w.got(n), "")
		return
	}
	if !isDecimal(n.text) {
		hint := "write a whole number in decimal, without leading zeros"
		w.fail(n, path, "want a number, got "+w.got(n), hint)
		return
	}
	if n.quoted {
		w.fail(n, path, "want a number, got the string "+w.got(n), "remove the quotes")
		return
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil || v.OverflowInt(i) {
		low, high := int64(math.MinInt64), int64(math.MaxInt64)
		if v.Kind() == reflect.Int32 {
			low, high = math.MinInt32, math.MaxInt32
		}
		w.fail(n, path, fmt.Sprintf("%s is out of range", clip(n.text)), fmt.Sprintf("want %d to %d", low, high))
		return
	}
	v.SetInt(i)
}

// isDecimal reports [-]digits without leading zeros.
func isDecimal(s string) bool {
	d := strings.TrimPrefix(s, "-")
	return allDigits(d) && (len(d) == 1 || d[0] != '0')
}

// quantity reads the text itself, quoted or not.
func (w *walker) quantity(v reflect.Value, n *node, path string) {
	if n.kind != scalarNode {
		w.fail(n, path, "want a quantity, got "+w.got(n), "write it as \"250m\" or \"64Mi\"")
		return
	}
	q, err := ParseQuantity(n.text)
	if err != nil {
		w.fail(n, path, err.Error(), "")
		return
	}
	v.Set(reflect.ValueOf(q))
}

// unmarshal fills a type that reads JSON itself: Time, Duration, IntOrPercent.
func (w *walker) unmarshal(v reflect.Value, n *node, path string) {
	if n.kind != scalarNode {
		w.fail(n, path, "want a single value, got "+w.got(n), "")
		return
	}
	if n.quoted && v.Type() == reflect.TypeFor[IntOrPercent]() && isDecimal(n.text) {
		w.fail(n, path, "want a number or a percentage, got the string "+w.got(n), "remove the quotes")
		return
	}
	text := []byte(n.text)
	if n.quoted || !isDecimal(n.text) {
		text, _ = json.Marshal(n.text) // a string always encodes
	}
	if err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text); err != nil {
		w.fail(n, path, err.Error(), "")
	}
}

func (w *walker) base64(v reflect.Value, n *node, path string) {
	if n.kind != scalarNode || (!n.quoted && w.json) {
		w.fail(n, path, "want base64 text, got "+w.got(n), "")
		return
	}
	b, err := base64.StdEncoding.Strict().DecodeString(strings.NewReplacer("\n", "", "\r", "", " ", "").Replace(n.text))
	if err != nil {
		w.fail(n, path, "is not base64", "encode it, or in a Secret write plain text under stringData and in a ConfigMap under data")
		return
	}
	v.SetBytes(b)
}

// raw keeps the value as JSON.
func (w *walker) raw(v reflect.Value, n *node) {
	if n.kind == nullNode {
		return
	}
	b, err := json.Marshal(n.plain())
	if err != nil {
		panic("api: a tree of strings, numbers, lists and maps does not encode: " + err.Error())
	}
	v.SetBytes(b)
}

// plain is the node as encoding/json's values.
func (n *node) plain() any {
	switch n.kind {
	case nullNode:
		return nil
	case listNode:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.plain()
		}
		return out
	case mapNode:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.key.text] = f.value.plain()
		}
		return out
	}
	switch {
	case n.quoted:
		return n.text
	case n.text == "true" || n.text == "false":
		return n.text == "true"
	case json.Valid([]byte(n.text)):
		return json.Number(n.text)
	}
	return n.text
}

// trapForms are the plain scalars that a reader of YAML 1.1 or 1.2 takes as a bool, null or number.
var trapForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + strings.Join([]string{
		`(?i:y|yes|n|no|true|false|on|off|null|~|)`,
		`[-+]?[0-9][0-9_]*`,                           // integers, octal of 1.1
		`[-+]?0[bB][01_]+`, `[-+]?0[xX][0-9a-fA-F_]+`, // binary, hexadecimal
		`[-+]?0[oO][0-7_]+`, // octal of 1.2
		`[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?`,                                           // sexagesimal of 1.1
		`[-+]?[0-9][0-9_]*\.?[0-9_]*(?:[eE][-+]?[0-9]+)?`, `[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?`, // decimals
		`[-+]?\.(?i:inf)`, `\.(?i:nan)`,
	}, "|") + `)$`)
})

// isTrap reports a plain scalar that is not a string to every reader.
func isTrap(s string) bool {
	if len(s) > 1024 || s == "-" || s == "+" || s == "." || s == "_" {
		return false
	}
	return trapForms().MatchString(s)
}
