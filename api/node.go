package api

import (
	"fmt"
	"strings"
)

// maxDepth is how deep a manifest may nest; the deepest field of the API is at about 12.
const maxDepth = 64

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mapNode
)

// node is one value of a parsed manifest, YAML or JSON, with its place in the file.
type node struct {
	kind      nodeKind
	text      string
	quoted    bool // a string for certain: quoted or a block scalar in YAML, a string in JSON
	line, col int  // from 1; col counts characters
	items     []*node
	fields    []nodeField
}

type nodeField struct {
	key   *node // a scalar
	value *node
}

func (n *node) field(name string) *node {
	for _, f := range n.fields {
		if f.key.text == name {
			return f.value
		}
	}
	return nil
}

// describe names what stands there, for "want X, got Y".
func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case listNode:
		return "a list"
	case mapNode:
		return "a map"
	}
	return fmt.Sprintf("%q", clip(n.text))
}

// DecodeError is one thing wrong with a manifest, with its place.
type DecodeError struct {
	File      string
	Line, Col int    // from 1; 0 = the file as a whole
	Path      string // as spec.template.spec.containers[0].image; "" = the document
	Message   string
	Hint      string // what to do; may be empty
}

// Error is FILE:LINE:COL: path: message; hint.
func (e *DecodeError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Col)
	}
	if b.Len() > 0 {
		b.WriteString(" ")
	}
	b.WriteString(e.text())
	return b.String()
}

// text is the error without its place in the file.
func (e *DecodeError) text() string {
	s := e.Message
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// DecodeErrors are all errors of a file, in its order. Its text has one line for each.
type DecodeErrors []*DecodeError

// Error is one line for each error.
func (l DecodeErrors) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// parseFailure is a syntax error at a place of the text that was parsed.
type parseFailure struct {
	line, col     int
	message, hint string
}

func (e *parseFailure) Error() string { return e.message }
