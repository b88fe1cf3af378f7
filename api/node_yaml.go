package api

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// yamlDocument is the text of one document of a YAML stream and the line of the file that it begins with.
type yamlDocument struct {
	text []byte
	line int // from 1
}

// splitYAML cuts a stream at its document markers. A line of "---" or "..." at its beginning is a marker wherever it stands,
// inside block scalars too, so no parser is needed for this. Each document keeps its own "---" line.
func splitYAML(data []byte) []yamlDocument {
	var docs []yamlDocument
	start, startLine, line := 0, 1, 1
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		switch text := data[at:end]; {
		case isMarker(text, "---"):
			docs = append(docs, yamlDocument{data[start:at], startLine})
			start, startLine = at, line
		case isMarker(text, "..."):
			docs = append(docs, yamlDocument{data[start:at], startLine})
			start, startLine = end, line+1
		}
		at = end
	}
	return append(docs, yamlDocument{data[start:], startLine})
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '\n')
}

// blank reports a document of comments and empty lines only.
func (d yamlDocument) blank() bool {
	for line := range bytes.Lines(d.text) {
		if isMarker(line, "---") {
			line = line[3:]
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// parseYAML parses one document. The lines of the nodes are those of the file. Errors are a *parseFailure.
func parseYAML(d yamlDocument) (*node, error) {
	if i := bytes.IndexByte(d.text, 0); i >= 0 || !utf8.Valid(d.text) {
		return nil, &parseFailure{line: d.line, col: 1, message: "is not UTF-8 text"}
	}
	if bytes.HasPrefix(d.text, []byte("%")) {
		return nil, &parseFailure{line: d.line, col: 1, message: "YAML directives are not accepted", hint: "remove the line that begins with '%'"}
	}
	var root yaml.Node
	if err := yaml.Load(d.text, &root); err != nil {
		return nil, d.syntaxError(err)
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return nil, &parseFailure{line: d.line, col: 1, message: "is not one YAML document"}
	}
	return convertYAML(root.Content[0], d.line-1, 0)
}

// syntaxError places the parser's error. A tab in the indentation is the usual cause, and the parser's own words for it do
// not help.
func (d yamlDocument) syntaxError(err error) *parseFailure {
	f := &parseFailure{line: d.line, col: 1, message: "is not YAML: " + err.Error()}
	near := 0
	var le *yaml.LoadError
	if errors.As(err, &le) {
		near = le.Mark.Line
		f.line, f.col = d.line-1+max(le.Mark.Line, 1), max(le.Mark.Column, 1)
		f.message = "is not YAML: " + le.Message
		if le.ContextMsg != "" {
			f.message = "is not YAML: " + le.ContextMsg + ": " + le.Message
		}
	}
	if line, col, ok := d.tabNear(near); ok {
		return &parseFailure{line: d.line - 1 + line, col: col, message: "is indented with a tab, which YAML forbids", hint: "use spaces"}
	}
	return f
}

// tabNear finds a line indented with a tab: the one at the parser's error, one before or after, else the first of the document. Lines count from 1 within
// the document.
func (d yamlDocument) tabNear(near int) (line, col int, ok bool) {
	first := 0
	columns := map[int]int{}
	n := 0
	for text := range bytes.Lines(d.text) {
		n++
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if i := bytes.IndexByte(indent, '\t'); i >= 0 {
			columns[n] = i + 1
			if first == 0 {
				first = n
			}
		}
	}
	for _, l := range []int{near, near - 1, near + 1, first} {
		if c, found := columns[l]; found {
			return l, c, true
		}
	}
	return 0, 0, false
}

// convertYAML makes nodes of the parser's, offset lines further down, and refuses what a manifest must not have.
func convertYAML(y *yaml.Node, offset, depth int) (*node, error) {
	n := &node{line: y.Line + offset, col: y.Column}
	refuse := func(message, hint string) (*node, error) {
		return nil, &parseFailure{line: n.line, col: n.col, message: message, hint: hint}
	}
	switch {
	case depth > maxDepth:
		return refuse(fmt.Sprintf("nests deeper than %d levels", maxDepth), "")
	case y.Kind == yaml.AliasNode:
		return refuse(fmt.Sprintf("alias *%s is not accepted", clip(y.Value)), "write the value out")
	case y.Anchor != "":
		return refuse(fmt.Sprintf("anchor &%s is not accepted", clip(y.Anchor)), "remove it and write the value out where it is used")
	case y.Style&yaml.TaggedStyle != 0:
		return refuse(fmt.Sprintf("tag %s is not accepted", clip(y.Tag)), "remove it")
	}
	switch y.Kind {
	case yaml.ScalarNode:
		n.kind, n.text = scalarNode, y.Value
		n.quoted = y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
		if !n.quoted && isNull(n.text) {
			n.kind = nullNode
		}
	case yaml.SequenceNode:
		n.kind = listNode
		for _, c := range y.Content {
			item, err := convertYAML(c, offset, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case yaml.MappingNode:
		n.kind = mapNode
		return n, convertMapping(n, y, offset, depth)
	default:
		return refuse("is not a value", "")
	}
	return n, nil
}

func convertMapping(n *node, y *yaml.Node, offset, depth int) error {
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, err := convertYAML(y.Content[i], offset, depth+1)
		if err != nil {
			return err
		}
		switch {
		case k.kind == listNode || k.kind == mapNode:
			return &parseFailure{line: k.line, col: k.col, message: "a map's key is " + k.describe() + ", want a word", hint: ""}
		case k.text == "<<" && !k.quoted:
			return &parseFailure{line: k.line, col: k.col, message: "merge key << is not accepted", hint: "write the fields out"}
		}
		v, err := convertYAML(y.Content[i+1], offset, depth+1)
		if err != nil {
			return err
		}
		n.fields = append(n.fields, nodeField{k, v})
	}
	return nil
}

func isNull(s string) bool { return s == "" || s == "~" || strings.EqualFold(s, "null") }
