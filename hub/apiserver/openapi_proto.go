package apiserver

import (
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The binary form of OpenAPI 2 is that of gnostic's openapi.v2 messages. The few of them that the document uses are written here by
// hand: the generated code for all would be some megabytes of program.

// message is a protobuf message being written. Fields are written in the order of their numbers.
type message []byte

func (m *message) text(field protowire.Number, s string) {
	if s == "" {
		return
	}
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendString(*m, s)
}

func (m *message) flag(field protowire.Number, b bool) {
	if !b {
		return
	}
	*m = protowire.AppendTag(*m, field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, 1)
}

func (m *message) sub(field protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

// named is gnostic's NamedSchema, NamedPathItem and NamedResponseValue: name = 1, value = 2.
func named(name string, value []byte) []byte {
	var m message
	m.text(1, name)
	m.sub(2, value)
	return m
}

// extension is NamedAny with the value as YAML, of which JSON is a part.
func (m *message) extension(field protowire.Number, name string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var v message
	v.text(2, string(b))
	m.sub(field, named(name, v))
	return nil
}

// proto writes Document: swagger = 1, info = 2, paths = 8, definitions = 9.
func (d *swagger) proto() ([]byte, error) {
	var info, paths, definitions, out message
	info.text(1, d.Info.Title)
	info.text(2, d.Info.Version)
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item, err := pathItemProto(d.Paths[path])
		if err != nil {
			return nil, err
		}
		paths.sub(2, named(path, item))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Definitions)) {
		s, err := d.Definitions[name].proto()
		if err != nil {
			return nil, err
		}
		definitions.sub(1, named(name, s))
	}
	out.text(1, d.Version)
	out.sub(2, info)
	out.sub(8, paths)
	out.sub(9, definitions)
	return out, nil
}

// pathItemProto writes PathItem.
func pathItemProto(item object) ([]byte, error) {
	var m message
	for _, at := range []struct {
		field  protowire.Number
		method string
	}{{2, "get"}, {3, "put"}, {4, "post"}, {5, "delete"}, {8, "patch"}} {
		op, ok := item[at.method].(operation)
		if !ok {
			continue
		}
		b, err := op.proto()
		if err != nil {
			return nil, err
		}
		m.sub(at.field, b)
	}
	params, _ := item["parameters"].([]parameter)
	for _, p := range params {
		b, err := p.proto()
		if err != nil {
			return nil, err
		}
		m.sub(9, b)
	}
	return m, nil
}

func (op operation) proto() ([]byte, error) {
	var m, responses message
	m.text(3, op.Description)
	m.text(5, op.ID)
	for _, media := range op.Produces {
		m.text(6, media)
	}
	for _, media := range op.Consumes {
		m.text(7, media)
	}
	for _, p := range op.Parameters {
		b, err := p.proto()
		if err != nil {
			return nil, err
		}
		m.sub(8, b)
	}
	for _, code := range slices.Sorted(maps.Keys(op.Responses)) {
		b, err := op.Responses[code].proto()
		if err != nil {
			return nil, err
		}
		responses.sub(1, named(code, b))
	}
	m.sub(9, responses)
	if err := m.extension(13, "x-kubernetes-action", op.Action); err != nil {
		return nil, err
	}
	return m, m.extension(13, "x-kubernetes-group-version-kind", op.Kind)
}

// proto writes ResponseValue{response = 1: Response{description = 1, schema = 2: SchemaItem{schema = 1}}}.
func (a answer) proto() ([]byte, error) {
	var response, item, m message
	response.text(1, a.Description)
	if a.Schema != nil {
		s, err := a.Schema.proto()
		if err != nil {
			return nil, err
		}
		item.sub(1, s)
		response.sub(2, item)
	}
	m.sub(1, response)
	return m, nil
}

// proto writes ParametersItem{parameter = 1: Parameter{body_parameter = 1 | non_body_parameter = 2}}.
func (p parameter) proto() ([]byte, error) {
	var inner, choice, param, m message
	if p.In == "body" {
		inner.text(2, p.Name)
		inner.text(3, p.In)
		inner.flag(4, p.Required)
		s, err := p.Schema.proto()
		if err != nil {
			return nil, err
		}
		inner.sub(5, s)
		param.sub(1, inner)
		m.sub(1, param)
		return m, nil
	}
	inner.flag(1, p.Required)
	inner.text(2, p.In)
	inner.text(3, p.Description)
	inner.text(4, p.Name)
	if p.In == "query" {
		inner.text(6, p.Type)
		choice.sub(3, inner)
	} else {
		inner.text(5, p.Type)
		choice.sub(4, inner)
	}
	param.sub(2, choice)
	m.sub(1, param)
	return m, nil
}

// proto writes Schema.
func (s *schema) proto() ([]byte, error) {
	var m message
	m.text(1, s.Ref)
	m.text(2, s.Format)
	m.text(4, s.Description)
	for _, name := range s.Required {
		m.text(19, name)
	}
	if s.Additional != nil {
		b, err := s.Additional.proto()
		if err != nil {
			return nil, err
		}
		var item message
		item.sub(1, b)
		m.sub(21, item)
	}
	if s.Type != "" {
		var item message
		item.text(1, s.Type)
		m.sub(22, item)
	}
	if s.Items != nil {
		b, err := s.Items.proto()
		if err != nil {
			return nil, err
		}
		var item message
		item.sub(1, b)
		m.sub(23, item)
	}
	if len(s.Properties) > 0 {
		var all message
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			b, err := s.Properties[name].proto()
			if err != nil {
				return nil, err
			}
			all.sub(1, named(name, b))
		}
		m.sub(25, all)
	}
	return s.extensions(m)
}

func (s *schema) extensions(m message) ([]byte, error) {
	if len(s.Kinds) > 0 {
		if err := m.extension(31, "x-kubernetes-group-version-kind", s.Kinds); err != nil {
			return nil, err
		}
	}
	for _, e := range []struct{ name, value string }{
		{"x-kubernetes-list-type", s.ListType},
		{"x-kubernetes-patch-merge-key", s.PatchMergeKey},
		{"x-kubernetes-patch-strategy", s.PatchStrategy},
	} {
		if e.value == "" {
			continue
		}
		if err := m.extension(31, e.name, e.value); err != nil {
			return nil, err
		}
	}
	return m, nil
}
