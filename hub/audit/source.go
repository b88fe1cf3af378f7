package audit

import "context"

type sourceKey struct{}

// WithSource keeps the address that a request came from, for records that are made far from the connection.
func WithSource(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceOf is the address that WithSource kept; "" = none.
func SourceOf(ctx context.Context) string {
	s, _ := ctx.Value(sourceKey{}).(string)
	return s
}
