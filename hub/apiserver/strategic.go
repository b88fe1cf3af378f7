package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// A strategic merge patch is a merge patch with directives, and with two lists that it merges instead of replacing them:
// metadata.finalizers, a set, and metadata.ownerReferences, by uid. Every other list of Drover's kinds is one value (the OpenAPI
// documents say so, and clients that compute patches read it there).
const (
	directivePatch  = "$patch"
	directiveRetain = "$retainKeys"
	directiveDelete = "$deleteFromPrimitiveList/"
	directiveOrder  = "$setElementOrder/"
)

// mergedLists are the two lists by their place, with the key that their items are told apart by; empty: by value.
func mergedLists() map[string]string {
	return map[string]string{"metadata.finalizers": "", "metadata.ownerReferences": "uid"}
}

// strategicInto changes target by the patch and returns what to put in its place; gone means that it is to be removed.
func strategicInto(target any, patch map[string]any, at string) (out any, gone bool, err error) {
	m, ok := target.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	switch how := patch[directivePatch]; how {
	case nil, "merge":
	case "delete":
		return nil, true, nil
	case "replace":
		m = map[string]any{}
	default:
		return nil, false, fault.BadRequest.Errorf("strategic merge patch: $patch is %q at %q: want merge, replace or delete", clip(fmt.Sprint(how)), at)
	}
	for key, v := range patch {
		if strings.HasPrefix(key, "$") {
			continue
		}
		if err := strategicKey(m, key, v, join(at, key)); err != nil {
			return nil, false, err
		}
	}
	return m, false, strategicDirectives(m, patch, at)
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func strategicKey(m map[string]any, key string, v any, at string) error {
	switch v := v.(type) {
	case nil:
		delete(m, key)
	case map[string]any:
		sub, gone, err := strategicInto(m[key], v, at)
		if err != nil {
			return err
		}
		if m[key] = sub; gone {
			delete(m, key)
		}
	case []any:
		by, merged := mergedLists()[at]
		if !merged {
			m[key] = v
			return nil
		}
		list, err := mergeList(m[key], v, by, at)
		if err != nil {
			return err
		}
		m[key] = list
	default:
		m[key] = v
	}
	return nil
}

// mergeList adds the patch's items to a list, or changes those of the same key; an item with $patch: delete takes its one away.
func mergeList(target any, patch []any, by, at string) ([]any, error) {
	list, _ := target.([]any)
	list = slices.Clone(list)
	for _, item := range patch {
		if by == "" {
			if !slices.ContainsFunc(list, func(have any) bool { return sameJSON(have, item) }) {
				list = append(list, item)
			}
			continue
		}
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fault.BadRequest.Errorf("strategic merge patch: an item of %s is no object", at)
		}
		if m[directivePatch] == "replace" {
			list = nil
			continue
		}
		if m[by] == nil {
			return nil, fault.BadRequest.Errorf("strategic merge patch: an item of %s has no %s", at, by)
		}
		i := slices.IndexFunc(list, func(have any) bool { h, ok := have.(map[string]any); return ok && sameJSON(h[by], m[by]) })
		var old any
		if i >= 0 {
			old = list[i]
		}
		next, gone, err := strategicInto(old, m, at+"[]")
		switch {
		case err != nil:
			return nil, err
		case gone && i >= 0:
			list = slices.Delete(list, i, i+1)
		case !gone && i >= 0:
			list[i] = next
		case !gone:
			list = append(list, next)
		}
	}
	return list, nil
}

// strategicDirectives does what stands beside the fields.
func strategicDirectives(m, patch map[string]any, at string) error {
	for key, v := range patch {
		if !strings.HasPrefix(key, "$") || key == directivePatch {
			continue
		}
		items, ok := v.([]any)
		if !ok {
			return fault.BadRequest.Errorf("strategic merge patch: %s at %q is no list", clip(key), at)
		}
		switch {
		case key == directiveRetain:
			for have := range m {
				if !slices.Contains(items, any(have)) {
					delete(m, have)
				}
			}
		case strings.HasPrefix(key, directiveDelete):
			field := strings.TrimPrefix(key, directiveDelete)
			list, _ := m[field].([]any)
			m[field] = slices.DeleteFunc(slices.Clone(list), func(have any) bool {
				return slices.ContainsFunc(items, func(one any) bool { return sameJSON(have, one) })
			})
		case strings.HasPrefix(key, directiveOrder):
			field := strings.TrimPrefix(key, directiveOrder)
			if by, merged := mergedLists()[join(at, field)]; merged {
				orderList(m, field, by, items)
			}
		default:
			return fault.BadRequest.Errorf("strategic merge patch: directive %q at %q is not known", clip(key), at)
		}
	}
	return nil
}

// orderList puts a list into the order given; what the order does not name stays behind in its own.
func orderList(m map[string]any, field, by string, order []any) {
	list, ok := m[field].([]any)
	if !ok {
		return
	}
	place := func(item any) int {
		i := slices.IndexFunc(order, func(o any) bool {
			if by == "" {
				return sameJSON(o, item)
			}
			x, xok := o.(map[string]any)
			y, yok := item.(map[string]any)
			return xok && yok && sameJSON(x[by], y[by])
		})
		if i < 0 {
			return len(order)
		}
		return i
	}
	slices.SortStableFunc(list, func(a, b any) int { return place(a) - place(b) })
}
