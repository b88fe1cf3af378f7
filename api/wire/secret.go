package wire

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted stands where a secret would.
const Redacted = "[redacted]"

// Secret is text that does not print: fmt, slog and JSON show [Redacted]. CBOR carries the text itself. Convert to string to
// use it.
type Secret string

// Format writes [Redacted] whatever the verb; an empty secret prints as nothing.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// String is [Redacted], or "" when empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// LogValue is what slog shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes [Redacted].
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }
