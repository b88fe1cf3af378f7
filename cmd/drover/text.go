package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/drover-fleet/drover/api"
)

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plain makes text that others wrote fit for one line of a terminal: devices and images name themselves, and what they say must
// neither move the cursor nor break a table.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// clip cuts s to at most width runes and shows that something is missing.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(0, width-3)]) + "..."
}

// age is how long ago, in the largest unit that says enough.
func age(t api.Time, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t.Time)
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
