package gateway

import (
	"fmt"
	"strings"

	"github.com/drover-fleet/drover/api/wire"
)

// environment is what a container's variables came to so far, by name.
type environment map[string]wire.Env

func (r *resolver) expandAll(texts []string, env environment) ([]string, error) {
	var out []string
	for _, t := range texts {
		v, err := r.expand(t, env)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// expand replaces $(NAME): a field of the device or the assignment, with a default as $(NAME:-default), or a variable defined
// before, as in Kubernetes. What is neither stays as it is written, and $$ stands for one $, as in Kubernetes.
func (r *resolver) expand(text string, env environment) (string, error) {
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			out.WriteString(text)
			return out.String(), nil
		}
		out.WriteString(text[:i])
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			text = text[i+2:]
		case '(':
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				out.WriteString(text[i:])
				return out.String(), nil
			}
			v, err := r.reference(text[i+2:i+end], env)
			if err != nil {
				return "", err
			}
			out.WriteString(v)
			text = text[i+end+1:]
		default:
			out.WriteByte('$')
			text = text[i+1:]
		}
	}
}

func (r *resolver) reference(inner string, env environment) (string, error) {
	path, fallback, hasFallback := strings.Cut(inner, ":-")
	if strings.HasPrefix(path, "device.") || strings.HasPrefix(path, "assignment.") {
		v, known, found := r.field(path)
		switch {
		case !known:
			return "", unknownField(path)
		case found:
			return v, nil
		case hasFallback:
			return fallback, nil
		}
		return "", fmt.Errorf("device %s has no %s: set it, or write $(%s:-default)", r.in.Device.Metadata.Name, path, path)
	}
	e, ok := env[path]
	switch {
	case ok && e.Secret != nil:
		return "", fmt.Errorf("$(%s) is a secret, which must not stand in a command line or in another variable: let the program read "+
			"the variable itself", path)
	case ok:
		return e.Value, nil
	case hasFallback:
		return fallback, nil
	}
	return "$(" + inner + ")", nil
}
