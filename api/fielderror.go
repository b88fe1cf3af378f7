package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// FieldError is one field that breaks a rule.
type FieldError struct {
	Path    string // as spec.template.spec.containers[0].env[1].value
	Message string // what is wrong, and what to do
}

// Error is path and message.
func (e FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// InvalidError is the fault for what [Validate] found; nil when it found nothing.
func InvalidError(o Object, errs []FieldError) error {
	if len(errs) == 0 {
		return nil
	}
	causes := make([]fault.Cause, len(errs))
	for i, e := range errs {
		causes[i] = fault.Cause{Field: e.Path, Message: e.Message}
	}
	return fault.InvalidObject(o.Type().Kind, o.Meta().Name, causes)
}

func appendErr(errs []FieldError, path string, err error) []FieldError {
	if err == nil {
		return errs
	}
	return append(errs, FieldError{path, err.Error()})
}

// key is the element of a path for a map key: .key, or ["key"] when it has characters of the path's own.
func key(k string) string {
	if k == "" || strings.ContainsAny(k, ".[]/\" ") {
		return "[" + strconv.Quote(clip(k)) + "]"
	}
	return "." + clip(k)
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// unknownValue says that got is none of want.
func unknownValue(got string, want ...string) string {
	list := strings.Join(want, ", ")
	if got == "" {
		return "is missing: want one of " + list
	}
	msg := strconv.Quote(clip(got)) + " is not known: want one of " + list
	if n := nearest(got, want); n != "" {
		msg = strconv.Quote(clip(got)) + " is not known; did you mean " + n + "?"
	}
	return msg
}

// nearest is the candidate that was probably meant; "" when none is near.
func nearest(got string, candidates []string) string {
	best, bestDistance := "", 1+max(1, min(3, len(got)/3))
	for _, c := range candidates {
		d := 0
		if !strings.EqualFold(c, got) {
			d = distance(strings.ToLower(got), strings.ToLower(c))
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between a and b. Long texts are
// not compared.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var prev2 []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, row
	}
	return prev[len(b)]
}
