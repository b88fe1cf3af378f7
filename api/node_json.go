package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// jsonParser makes nodes of one JSON value.
type jsonParser struct {
	data []byte
	dec  *json.Decoder
	// line and col are of the byte at scanned. Places are asked for in rising order, so each byte is looked at once.
	line, col, scanned int
	nodes              int
}

// maxNodes is how many values one JSON object may have: it bounds the memory that 1 MiB of "[1,1,..." takes.
const maxNodes = 100_000

// parseJSON parses data as one JSON value and nothing after it. Errors are a *parseFailure.
func parseJSON(data []byte) (*node, error) {
	p := &jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, col: 1}
	p.dec.UseNumber()
	if !utf8.Valid(data) {
		return nil, &parseFailure{line: 1, col: 1, message: "is not UTF-8 text"}
	}
	n, err := p.value(0)
	if err == nil {
		if _, end := p.dec.Token(); !errors.Is(end, io.EOF) {
			err = p.failure("has something after its end", int(p.dec.InputOffset()))
		}
	}
	return n, err
}

// position is the line and column of the first character of a token at or after the offset.
func (p *jsonParser) position(offset int) (line, col int) {
	for offset < len(p.data) && isBetween(p.data[offset]) {
		offset++
	}
	for end := min(offset, len(p.data)); p.scanned < end; p.scanned++ {
		switch c := p.data[p.scanned]; {
		case c == '\n':
			p.line, p.col = p.line+1, 1
		case utf8.RuneStart(c):
			p.col++
		}
	}
	return p.line, p.col
}

// isBetween reports what stands between the tokens of JSON.
func isBetween(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':'
}

func (p *jsonParser) failure(message string, offset int) *parseFailure {
	line, col := p.position(offset)
	return &parseFailure{line: line, col: col, message: message}
}

func (p *jsonParser) token() (json.Token, *node, error) {
	n := &node{}
	n.line, n.col = p.position(int(p.dec.InputOffset()))
	t, err := p.dec.Token()
	if err == nil {
		return t, n, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, p.failure("is not JSON: it ends too early", len(p.data))
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, nil, p.failure("is not JSON: "+syntax.Error(), max(int(syntax.Offset)-1, 0))
	}
	return nil, nil, p.failure("is not JSON: "+err.Error(), int(p.dec.InputOffset()))
}

func (p *jsonParser) value(depth int) (*node, error) {
	t, n, err := p.token()
	if err != nil {
		return nil, err
	}
	if p.nodes++; p.nodes > maxNodes {
		return nil, &parseFailure{line: n.line, col: n.col, message: fmt.Sprintf("has more than %d values", maxNodes)}
	}
	if depth > maxDepth {
		return nil, &parseFailure{line: n.line, col: n.col, message: fmt.Sprintf("nests deeper than %d levels", maxDepth)}
	}
	n.kind = scalarNode
	switch t := t.(type) {
	case nil:
		n.kind = nullNode
	case bool:
		n.text = fmt.Sprint(t)
	case json.Number:
		n.text = t.String()
	case string:
		n.text, n.quoted = t, true
	case json.Delim:
		if t == '[' {
			n.kind = listNode
			return n, p.list(n, depth)
		}
		n.kind = mapNode
		return n, p.object(n, depth)
	}
	return n, nil
}

func (p *jsonParser) list(n *node, depth int) error {
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := p.token()
	return err
}

func (p *jsonParser) object(n *node, depth int) error {
	for p.dec.More() {
		k, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.fields = append(n.fields, nodeField{k, v})
	}
	_, _, err := p.token()
	return err
}
