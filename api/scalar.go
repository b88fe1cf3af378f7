package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Time is a moment with second resolution in UTC, RFC 3339 in JSON. The zero value is "not set" and encodes as null.
type Time struct{ time.Time }

// TimeOf rounds down to the second, in UTC. The zero time stays zero.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Second)}
}

// MarshalJSON writes RFC 3339, or null when not set.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(time.RFC3339) + `"`), nil
}

// UnmarshalJSON reads RFC 3339; null and "" are the zero value.
func (t *Time) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" || s == `""` {
		*t = Time{}
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a time: quote it, as \"2027-01-31T00:00:00Z\"", s)
	}
	p, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time, as \"2027-01-31T00:00:00Z\"", text)
	}
	*t = TimeOf(p)
	return nil
}

// Duration is a Go duration, written as a string ("30s", "15m") in JSON. The zero value is "not set".
type Duration struct{ time.Duration }

// MarshalJSON writes Go's form of the duration.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.Duration.String()) }

// UnmarshalJSON reads Go's form; "" and null are zero.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" || string(b) == `""` {
		d.Duration = 0
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%s is not a duration: write a string with a unit, as \"30s\"", b)
	}
	p, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write a number with a unit, as \"30s\", \"15m\" or \"72h\"", text)
	}
	d.Duration = p
	return nil
}

// IntOrPercent is a count (3) or a share ("10%"), as in Kubernetes.
type IntOrPercent struct {
	Count     int32
	Percent   int32
	IsPercent bool
}

// MarshalJSON writes a number or a string with a percent sign.
func (v IntOrPercent) MarshalJSON() ([]byte, error) {
	if v.IsPercent {
		return json.Marshal(strconv.Itoa(int(v.Percent)) + "%")
	}
	return json.Marshal(v.Count)
}

// UnmarshalJSON reads a number or a string with a percent sign, 0 to 100 %.
func (v *IntOrPercent) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		digits, ok := strings.CutSuffix(text, "%")
		p, err := strconv.ParseInt(digits, 10, 32)
		if !ok || err != nil || p < 0 || p > 100 {
			return fmt.Errorf("%q is neither a number nor a percentage: write 3 or \"10%%\"", text)
		}
		*v = IntOrPercent{Percent: int32(p), IsPercent: true}
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is neither a number from 0 up nor a percentage: write 3 or \"10%%\"", b)
	}
	*v = IntOrPercent{Count: int32(n)}
	return nil
}

// Of is the share of total: percentages rounded down, never below min.
func (v IntOrPercent) Of(total, min int32) int32 {
	n := v.Count
	if v.IsPercent {
		n = int32(int64(total) * int64(v.Percent) / 100)
	}
	if n < min {
		return min
	}
	return n
}

// RawJSON is kept as it came.
type RawJSON []byte

// MarshalJSON returns the bytes.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the bytes.
func (r *RawJSON) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0:0], b...)
	return nil
}
