package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxBody bounds a body on record, in bytes as received.
const maxBody = 64 << 10

// secretKinds and secretResources hold what never goes on record.
func secretKinds() []string { return []string{"Secret", "JoinToken", "TokenRequest", "TokenReview"} }

func secretResources() []string {
	return []string{"secrets", "jointokens", "tokenreviews", "serviceaccounts/token"}
}

// Body is what of a request's body goes on record: the JSON document without anything that holds a secret, or words that say why there
// is none. Not even a hash of a secret is kept, since short ones can be found by trying.
func Body(a *Attributes, body []byte) json.RawMessage {
	resource := a.Resource
	if a.Sub != "" {
		resource += "/" + a.Sub
	}
	switch {
	case len(body) == 0:
		return nil
	case slices.Contains(secretResources(), resource) || slices.Contains(secretResources(), a.Resource):
		return words("not kept: %s hold secrets", resource)
	case len(body) > maxBody:
		return words("not kept: %d bytes, above %d", len(body), maxBody)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return words("not kept: %d bytes that are not JSON", len(body))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return words("not kept: more than one JSON document")
	}
	out, err := json.Marshal(withoutSecrets(v))
	if err != nil {
		return words("not kept: %d bytes that cannot be written again", len(body))
	}
	return out
}

func words(format string, args ...any) json.RawMessage {
	b, err := json.Marshal(fmt.Sprintf(format, args...))
	if err != nil {
		return nil
	}
	return b
}

// withoutSecrets replaces each object of a secret kind by its name. A last-applied configuration repeats an object as text: it goes too.
func withoutSecrets(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutSecrets(v[i])
		}
	case map[string]any:
		if kind, ok := v["kind"].(string); ok && slices.ContainsFunc(secretKinds(), func(k string) bool { return strings.EqualFold(k, kind) }) {
			return map[string]any{"kind": kind, "metadata": nameOf(v["metadata"]), "redacted": true}
		}
		for k := range v {
			switch {
			case strings.EqualFold(k, "kubectl.kubernetes.io/last-applied-configuration"), strings.EqualFold(k, "token"), strings.EqualFold(k, "stringData"):
				v[k] = "[redacted]"
			default:
				v[k] = withoutSecrets(v[k])
			}
		}
	}
	return v
}

func nameOf(metadata any) map[string]any {
	m, ok := metadata.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	out := map[string]any{}
	for _, k := range []string{"name", "namespace", "generateName"} {
		if s, ok := m[k].(string); ok {
			out[k] = s
		}
	}
	return out
}
