package fault

import "errors"

// code is one row of the table that maps classes to what each edge speaks.
type code struct {
	class  Class
	http   int
	reason string // Kubernetes'
	coap   uint8  // class<<5 | detail, RFC 7252 and RFC 8516
	mqtt   uint8  // MQTT 5 reason code
	exit   int    // of drover
}

// codes is the one table. Where several classes share a code of an edge, the first row is what the code means coming back.
func codes() []code {
	return []code{
		{BadRequest, 400, "BadRequest", 0x80, 0x81, 1},
		{Unauthorized, 401, "Unauthorized", 0x81, 0x87, 9},
		{Forbidden, 403, "Forbidden", 0x83, 0x87, 9},
		{NotFound, 404, "NotFound", 0x84, 0x90, 1},
		{MethodNotAllowed, 405, "MethodNotAllowed", 0x85, 0x83, 1},
		{NotAcceptable, 406, "NotAcceptable", 0x86, 0x99, 1},
		{Conflict, 409, "Conflict", 0x89, 0x83, 8},
		{AlreadyExists, 409, "AlreadyExists", 0x89, 0x83, 8},
		{Expired, 410, "Expired", 0x8c, 0x83, 1},
		{OtherEpoch, 410, "Expired", 0x8c, 0x83, 1},
		{TooLarge, 413, "RequestEntityTooLarge", 0x8d, 0x95, 1},
		{UnsupportedMedia, 415, "UnsupportedMediaType", 0x8f, 0x99, 1},
		{Invalid, 422, "Invalid", 0x96, 0x99, 1},
		{TooManyRequests, 429, "TooManyRequests", 0x9d, 0x97, 7},
		{Internal, 500, "InternalError", 0xa0, 0x80, 1},
		{Unavailable, 503, "ServiceUnavailable", 0xa3, 0x88, 7},
		{Timeout, 504, "Timeout", 0xa4, 0x89, 4},
		{Ahead, 504, "Timeout", 0xa4, 0x89, 7},
		{Unreachable, 503, "ServiceUnavailable", 0xa3, 0x88, 7},
	}
}

func (c Class) code() code {
	for _, r := range codes() {
		if r.class == c {
			return r
		}
	}
	return Internal.code()
}

// HTTP is the status code.
func (c Class) HTTP() int { return c.code().http }

// Reason is Kubernetes' reason.
func (c Class) Reason() string { return c.code().reason }

// CoAP is the response code, class<<5 | detail.
func (c Class) CoAP() uint8 { return c.code().coap }

// MQTT is the MQTT 5 reason code.
func (c Class) MQTT() uint8 { return c.code().mqtt }

// OfHTTP is the class of a status code that came without a Status: unknown codes below 500 are BadRequest, others Internal.
func OfHTTP(status int) Class {
	for _, r := range codes() {
		if r.http == status {
			return r.class
		}
	}
	switch {
	case status == 502:
		return Unavailable
	case status == 408:
		return Timeout
	case status >= 400 && status < 500:
		return BadRequest
	}
	return Internal
}

// OfCoAP is the class of a response code of 4.xx or 5.xx.
func OfCoAP(c uint8) Class {
	for _, r := range codes() {
		if r.coap == c {
			return r.class
		}
	}
	if c>>5 == 4 {
		return BadRequest
	}
	return Internal
}

// OfMQTT is the class of an MQTT 5 reason code from 0x80 up.
func OfMQTT(c uint8) Class {
	switch c {
	case 0x83: // implementation specific: the payload says more
		return Internal
	case 0x86: // bad user name or password
		return Unauthorized
	case 0x87:
		return Forbidden
	case 0x99:
		return Invalid
	case 0x8d, 0x96: // keep alive timeout, message rate too high
		return TooManyRequests
	}
	for _, r := range codes() {
		if r.mqtt == c {
			return r.class
		}
	}
	return Internal
}

func classOfReason(reason string) Class {
	for _, r := range codes() {
		if r.reason == reason {
			return r.class
		}
	}
	switch reason {
	case "Gone":
		return Expired
	case "ServerTimeout":
		return Timeout
	}
	return ""
}

// Exit codes of drover that are not the class of one error.
const (
	ExitDone       = 0
	ExitError      = 1
	ExitUsage      = 2
	ExitPending    = 3 // done with some devices pending-offline, or differences found when those were asked for
	ExitStillGoing = 4 // timed out and still going
	ExitFailed     = 5 // some devices failed
	ExitStopped    = 6 // rolled back, stopped by a gate, or a judged rule violated
	ExitNoHub      = 7
	ExitConflict   = 8
	ExitDenied     = 9
)

type exitError struct {
	err  error
	code int
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// WithExit makes [ExitCode] of err the given one. Nil stays nil.
func WithExit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{err: err, code: code}
}

// ExitCode is what drover exits with: the code given by [WithExit], else by class; 0 for nil. An error of no class is 1.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	var x *exitError
	if errors.As(err, &x) {
		return x.code
	}
	return ClassOf(err).code().exit
}
