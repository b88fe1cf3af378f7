package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class says what kind of failure an error is. It is an error itself, for errors.Is.
type Class string

// The classes. The comment gives the HTTP status.
const (
	BadRequest       Class = "BadRequest"       // 400: cannot be understood
	Unauthorized     Class = "Unauthorized"     // 401: who are you
	Forbidden        Class = "Forbidden"        // 403: not yours
	NotFound         Class = "NotFound"         // 404: no such object or path; never means "remove"
	MethodNotAllowed Class = "MethodNotAllowed" // 405: not with this verb
	NotAcceptable    Class = "NotAcceptable"    // 406: no form of the answer that was asked for
	AlreadyExists    Class = "AlreadyExists"    // 409: the name is taken
	Conflict         Class = "Conflict"         // 409: a precondition did not hold, or another manager owns the field
	Expired          Class = "Expired"          // 410: the revision was compacted, or the watcher fell behind: list again
	OtherEpoch       Class = "OtherEpoch"       // 410: the revision belongs to another history of the hub
	TooLarge         Class = "TooLarge"         // 413: the message gives size and limit
	UnsupportedMedia Class = "UnsupportedMedia" // 415: content type not known
	Invalid          Class = "Invalid"          // 422: understood, but breaks a rule; Details.Causes name the fields
	TooManyRequests  Class = "TooManyRequests"  // 429: slow down, RetryAfter says how much
	Internal         Class = "Internal"         // 500: a defect or a failing disk
	Unavailable      Class = "Unavailable"      // 503: this member cannot serve now (no quorum, starting, stopping)
	Timeout          Class = "Timeout"          // 504: no outcome in time; it may still come
	Ahead            Class = "Ahead"            // 504: the revision asked for is ahead of this member
	Unreachable      Class = "Unreachable"      // no member answered; made by clients, sent by nobody
)

// Error is the class as text.
func (c Class) Error() string { return string(c) }

// Errorf makes an error of the class. A wrapped error (%w) stays reachable by errors.Is and errors.As.
func (c Class) Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: c, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Wrap gives err the class, whatever class it had. Nil stays nil.
func (c Class) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: c, Message: err.Error(), Cause: err}
}

// Error is a failure with its class.
type Error struct {
	Class   Class
	Message string // what, where, what to do; whole, without the text of Cause being added
	Details Details
	// RetryAfter is how long to wait before trying again; 0 = not said.
	RetryAfter time.Duration
	// Cause is what lies below, for errors.Is and errors.As; its text is not added to Message.
	Cause error
}

// Details name the object and the fields at fault.
type Details struct {
	Name  string
	Group string
	Kind  string // the plural resource or the kind, as the maker of the error has it
	UID   string
	// Continue is a token with which a list that Expired goes on at the newest revision, and so without a consistent whole.
	Continue string
	Causes   []Cause
}

// Cause is one field at fault.
type Cause struct {
	Reason  string // FieldValueInvalid when empty
	Field   string // path, as spec.template.spec.containers[0].image
	Message string
}

// Error is the message, or the class when there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Class)
	}
	return e.Message
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the error's class.
func (e *Error) Is(target error) bool {
	c, ok := target.(Class)
	return ok && c == e.Class
}

// ClassOf returns the class of the outermost classified error in the chain. An ended context is Timeout; any other error
// is Internal; nil has no class ("").
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	var c Class
	if errors.As(err, &c) {
		return c
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Timeout
	}
	return Internal
}

// Is reports whether err has one of the classes, by [ClassOf].
func Is(err error, classes ...Class) bool {
	if err == nil {
		return false
	}
	of := ClassOf(err)
	for _, c := range classes {
		if c == of {
			return true
		}
	}
	return false
}

// RetryAfter is how long the error asks to wait; 0 when it does not say.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// Retryable reports whether the same request may succeed later without being changed. It does not say that sending it
// again is safe: after Timeout, Unavailable and Unreachable a write may have taken effect.
func Retryable(err error) bool {
	return Is(err, TooManyRequests, Unavailable, Timeout, Ahead, Unreachable)
}

// ObjectNotFound says that no object of the kind has the name.
func ObjectNotFound(kind, name string) *Error {
	e := NotFound.Errorf("%s %q not found", kind, name)
	e.Details = Details{Kind: kind, Name: name}
	return e
}

// ObjectExists says that the name is taken.
func ObjectExists(kind, name string) *Error {
	e := AlreadyExists.Errorf("%s %q already exists", kind, name)
	e.Details = Details{Kind: kind, Name: name}
	return e
}

// ObjectConflict says that the object changed since it was read; why says what differs.
func ObjectConflict(kind, name, why string) *Error {
	e := Conflict.Errorf("%s %q: %s; read it again and repeat the change", kind, name, why)
	e.Details = Details{Kind: kind, Name: name}
	return e
}

// InvalidObject lists every field at fault.
func InvalidObject(kind, name string, causes []Cause) *Error {
	parts := make([]string, 0, len(causes))
	for _, c := range causes {
		if c.Field == "" {
			parts = append(parts, c.Message)
			continue
		}
		parts = append(parts, c.Field+": "+c.Message)
	}
	e := Invalid.Errorf("%s %q is invalid: %s", kind, name, strings.Join(parts, "; "))
	e.Details = Details{Kind: kind, Name: name, Causes: causes}
	return e
}

// SizeLimit says that something is too large, with size and limit in bytes.
func SizeLimit(what string, size, limit int64) *Error {
	return TooLarge.Errorf("%s is %d bytes; the limit is %d bytes", what, size, limit)
}

// NoQuorum says that the hub has no majority now: nothing was written, and it may be tried again.
func NoQuorum(why string) *Error {
	e := Unavailable.Errorf("the hub has no quorum: %s", why)
	e.RetryAfter = time.Second
	return e
}

// SlowDown asks the caller to come back after a while.
func SlowDown(after time.Duration, format string, args ...any) *Error {
	e := TooManyRequests.Errorf(format, args...)
	e.RetryAfter = after
	return e
}
