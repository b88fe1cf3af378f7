package registry

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// Bounds of the diff of one journal record.
const (
	maxDiffChanges = 40
	maxDiffValue   = 160 // bytes of one rendered value
	maxDiffBytes   = 4096
)

// Change is one field of a diff. Old and New are JSON, cut short where they are long; empty means absent. Values of Secrets are
// "hmac:" and a keyed hash, which tells equal from different and nothing else.
type Change struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Diff is what a journal record keeps of a change.
type Diff struct {
	Changes []Change `json:"changes,omitempty"`
	// More is how many further fields changed beyond the bounds of a record.
	More int `json:"more,omitempty"`
}

// diff renders what changed from old to cur; either may be nil.
func (r *Registry) diff(ref api.Ref, old, cur api.Object) ([]byte, error) {
	a, err := r.diffable(old)
	if err != nil {
		return nil, err
	}
	b, err := r.diffable(cur)
	if err != nil {
		return nil, err
	}
	var all []Change
	walkDiff("", a, b, &all)
	out := Diff{Changes: all}
	size := 0
	for i, c := range all {
		size += len(c.Path) + len(c.Old) + len(c.New)
		if i == maxDiffChanges || size > maxDiffBytes {
			out.Changes, out.More = all[:i], len(all)-i
			break
		}
	}
	enc, err := json.Marshal(out)
	if err != nil {
		return nil, fault.Internal.Errorf("diff of %s: %w", title(ref), err)
	}
	return enc, nil
}

// diffable is the object as maps, without what every write changes or no reader asks for, and with secrets hashed.
func (r *Registry) diffable(obj api.Object) (map[string]any, error) {
	if obj == nil {
		return map[string]any{}, nil
	}
	if s, ok := obj.(*api.Secret); ok {
		hidden := api.Copy(s)
		hidden.Data, hidden.StringData = nil, map[string]string{}
		for k, v := range s.Data {
			hidden.StringData[k] = "hmac:" + hex.EncodeToString(r.o.Sealer.KeyedHash(v))
		}
		obj = hidden
	}
	m, err := asMap(obj)
	if err != nil {
		return nil, err
	}
	if d, ok := m["stringData"]; ok {
		delete(m, "stringData")
		m["data"] = d
	}
	delete(m, "apiVersion")
	delete(m, "kind")
	if meta, ok := m["metadata"].(map[string]any); ok {
		for _, k := range []string{"managedFields", "creationTimestamp", "uid", "name", "namespace", "generation"} {
			delete(meta, k)
		}
	}
	return m, nil
}

// walkDiff collects changed leaves in the order of their paths. Lists are compared place by place.
func walkDiff(path string, a, b any, out *[]Change) {
	if reflect.DeepEqual(a, b) {
		return
	}
	am, aIsMap := a.(map[string]any)
	bm, bIsMap := b.(map[string]any)
	al, aIsList := a.([]any)
	bl, bIsList := b.([]any)
	switch {
	case (aIsMap || a == nil) && (bIsMap || b == nil):
		keys := map[string]bool{}
		for k := range am {
			keys[k] = true
		}
		for k := range bm {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			walkDiff(joinPath(path, k), am[k], bm[k], out)
		}
	case (aIsList || a == nil) && (bIsList || b == nil):
		for i := range max(len(al), len(bl)) {
			walkDiff(path+"["+strconv.Itoa(i)+"]", at(al, i), at(bl, i), out)
		}
	default:
		*out = append(*out, Change{Path: path, Old: rendered(a), New: rendered(b)})
	}
}

func at(l []any, i int) any {
	if i < len(l) {
		return l[i]
	}
	return nil
}

// joinPath quotes keys that hold dots, as those of labels do.
func joinPath(path, key string) string {
	for _, r := range key {
		if r == '.' || r == '/' || r == '[' {
			return path + "[" + strconv.Quote(key) + "]"
		}
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func rendered(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if len(b) <= maxDiffValue {
		return string(b)
	}
	cut := maxDiffValue
	for cut > 0 && !utf8.RuneStart(b[cut]) {
		cut--
	}
	return string(b[:cut]) + "…"
}
