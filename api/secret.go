package api

import (
	"fmt"
	"io"
	"log/slog"
)

// String names the Secret without its values.
func (o Secret) String() string {
	return fmt.Sprintf("Secret %s/%s (%d keys, values not shown)", o.Metadata.Namespace, o.Metadata.Name, len(o.Data)+len(o.StringData))
}

// Format writes String, whatever the verb.
func (o Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// LogValue is what slog shows.
func (o Secret) LogValue() slog.Value { return slog.StringValue(o.String()) }
