package fault

import (
	"errors"
	"time"
)

// Status is Kubernetes' v1 Status, the body of every refused request of the operators' API.
type Status struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   StatusMetadata `json:"metadata"`
	Status     string         `json:"status"` // Success or Failure
	Message    string         `json:"message,omitempty"`
	Reason     string         `json:"reason,omitempty"`
	Details    *StatusDetails `json:"details,omitempty"`
	Code       int            `json:"code,omitempty"`
}

// StatusMetadata is that of a list: Continue goes on with a list whose revision is no longer kept, at the newest.
type StatusMetadata struct {
	Continue string `json:"continue,omitempty"`
}

// StatusDetails are Kubernetes'.
type StatusDetails struct {
	Name              string        `json:"name,omitempty"`
	Group             string        `json:"group,omitempty"`
	Kind              string        `json:"kind,omitempty"`
	UID               string        `json:"uid,omitempty"`
	Causes            []StatusCause `json:"causes,omitempty"`
	RetryAfterSeconds int32         `json:"retryAfterSeconds,omitempty"` // rounded up
}

// StatusCause is Kubernetes'.
type StatusCause struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
}

// Reasons of causes that carry a class which Kubernetes has no reason for. The first is Kubernetes' own.
const (
	causeAhead      = "ResourceVersionTooLarge"
	causeOtherEpoch = "OtherEpoch"
)

// StatusOf puts err into Kubernetes' form. A nil error is Success. The text of an error that was not classified does not
// leave the process: it may name files or peers.
func StatusOf(err error) Status {
	if err == nil {
		return Status{Kind: "Status", APIVersion: "v1", Status: "Success", Code: 200}
	}
	c := ClassOf(err)
	s := Status{Kind: "Status", APIVersion: "v1", Status: "Failure", Reason: c.Reason(), Code: c.HTTP(), Message: err.Error()}
	var e *Error
	if !errors.As(err, &e) {
		if c == Internal {
			s.Message = "internal error; the hub's log has it"
		}
		e = &Error{Class: c}
	}
	s.Details, s.Metadata.Continue = detailsOf(e), e.Details.Continue
	return s
}

func detailsOf(e *Error) *StatusDetails {
	d := &StatusDetails{Name: e.Details.Name, Group: e.Details.Group, Kind: e.Details.Kind, UID: e.Details.UID}
	for _, c := range e.Details.Causes {
		reason := c.Reason
		if reason == "" {
			reason = "FieldValueInvalid"
		}
		d.Causes = append(d.Causes, StatusCause{Reason: reason, Message: c.Message, Field: c.Field})
	}
	switch e.Class {
	case Ahead:
		d.Causes = append(d.Causes, StatusCause{Reason: causeAhead, Message: "Too large resource version"})
	case OtherEpoch:
		d.Causes = append(d.Causes, StatusCause{Reason: causeOtherEpoch, Message: "revision of another epoch"})
	}
	if e.RetryAfter > 0 {
		d.RetryAfterSeconds = int32(min((e.RetryAfter+time.Second-1)/time.Second, 1<<31-1))
	}
	if d.Name == "" && d.Group == "" && d.Kind == "" && d.UID == "" && len(d.Causes) == 0 && d.RetryAfterSeconds == 0 {
		return nil
	}
	return d
}

// FromStatus is the error that a Status tells of; nil for Success. A reason that is not known falls back to the code.
func FromStatus(s Status) error {
	if s.Status == "Success" {
		return nil
	}
	e := &Error{Class: classOfReason(s.Reason), Message: s.Message}
	if e.Class == "" {
		e.Class = OfHTTP(s.Code)
	}
	e.Details.Continue = s.Metadata.Continue
	if s.Details == nil {
		return e
	}
	d := s.Details
	e.Details = Details{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: d.UID, Continue: s.Metadata.Continue}
	e.RetryAfter = time.Duration(max(d.RetryAfterSeconds, 0)) * time.Second
	for _, c := range d.Causes {
		switch {
		case c.Reason == causeAhead && e.Class == Timeout:
			e.Class = Ahead
		case c.Reason == causeOtherEpoch && e.Class == Expired:
			e.Class = OtherEpoch
		default:
			e.Details.Causes = append(e.Details.Causes, Cause{Reason: c.Reason, Message: c.Message, Field: c.Field})
		}
	}
	return e
}
