package auditlog

import "net/http"

// Refusal is the reason, one of few, that an HTTP status gives for a refusal: what is not theirs to ask, too much, or malformed. It is ""
// for every other answer, which tells how things stand.
func Refusal(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "malformed"
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
		return "too_large"
	case http.StatusUnsupportedMediaType:
		return "media"
	case http.StatusRequestTimeout:
		return "slow_body"
	case http.StatusTooManyRequests:
		return "busy"
	}
	return ""
}
