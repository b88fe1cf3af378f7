package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/registry"
)

// mayPersonWrite keeps people out of what belongs to controllers, the scheduler and the devices. The reason says whose it
// is and what to write instead.
func mayPersonWrite(rq *registry.AdmissionRequest) error {
	if rq.Verb == verbStatus {
		return forbidden(rq, "the status is written by the part of Drover that observes it")
	}
	switch rq.Kind {
	case api.KindTombstone:
		return forbidden(rq, "tombstones are written as assignments go, and removed once the device has obeyed")
	case api.KindWorkloadRevision:
		return onlyMetadata(rq, "revisions are made from the workload's template: change the workload")
	case api.KindAssignment:
		return onlyMetadata(rq, "the scheduler binds assignments and rollouts move them: change the workload")
	case api.KindRollout:
		return personsRollout(rq)
	case api.KindDevice:
		if rq.Verb == verbCreate {
			return forbidden(rq, "devices come by enrolling: make a token (drover token create) and start the agent with it")
		}
	case api.KindEnrollmentRequest:
		return personsEnrollment(rq)
	}
	return nil
}

func forbidden(rq *registry.AdmissionRequest, why string) error {
	name := ""
	for _, o := range []api.Object{rq.New, rq.Old} {
		if o != nil && name == "" {
			name = o.Meta().Name
		}
	}
	e := fault.Forbidden.Errorf("%s %q: %s may not %s it: %s", rq.Kind.Plural, name, rq.Actor.Name, rq.Verb, why)
	e.Details = fault.Details{Kind: rq.Kind.Plural, Name: name}
	return e
}

// onlyMetadata allows labels and annotations, and deleting; what the object says is not the person's.
func onlyMetadata(rq *registry.AdmissionRequest, why string) error {
	switch {
	case rq.Verb == verbDelete && rq.Kind == api.KindWorkloadRevision:
		return forbidden(rq, "revisions go by the workload's revisionHistoryLimit; copies may still run this one")
	case rq.Verb == verbDelete:
		return nil
	case rq.Verb == verbCreate:
		return forbidden(rq, why)
	}
	return sameSpec(rq, rq.Old, rq.New, why)
}

// personsRollout leaves paused and aborted to people.
func personsRollout(rq *registry.AdmissionRequest) error {
	const why = "rollouts are made as a workload changes; people write paused and aborted only"
	old, isRollout := rq.Old.(*api.Rollout)
	switch {
	case rq.Verb == verbDelete:
		return nil
	case rq.Verb == verbCreate || !isRollout:
		return forbidden(rq, why)
	}
	masked := api.Copy(old)
	if obj, ok := rq.New.(*api.Rollout); ok {
		masked.Spec.Paused, masked.Spec.Aborted = obj.Spec.Paused, obj.Spec.Aborted
	}
	return sameSpec(rq, masked, rq.New, why)
}

// personsEnrollment leaves the answer to people, and the question to the device that asked.
func personsEnrollment(rq *registry.AdmissionRequest) error {
	const why = "a device asks with it; people write approved, denied and replace only"
	old, isRequest := rq.Old.(*api.EnrollmentRequest)
	switch {
	case rq.Verb == verbDelete:
		return nil
	case rq.Verb == verbCreate || !isRequest:
		return forbidden(rq, why)
	}
	masked := api.Copy(old)
	if obj, ok := rq.New.(*api.EnrollmentRequest); ok {
		s := &masked.Spec
		s.Approved, s.Denied, s.Replace = obj.Spec.Approved, obj.Spec.Denied, obj.Spec.Replace
		if s.Approved && s.Denied {
			return fault.Invalid.Errorf("%s %q: approved and denied exclude each other", rq.Kind.Plural, obj.Metadata.Name)
		}
	}
	return sameSpec(rq, masked, rq.New, why)
}

// sameSpec compares by encoded form, so that an absent and an empty field are one.
func sameSpec(rq *registry.AdmissionRequest, old, obj api.Object, why string) error {
	same, err := equalSpecs(old, obj)
	if err != nil {
		return err
	}
	if !same {
		return forbidden(rq, why)
	}
	return nil
}

func equalSpecs(a, b api.Object) (bool, error) {
	x, err := specOf(a)
	if err != nil {
		return false, err
	}
	y, err := specOf(b)
	return string(x) == string(y), err
}

// equalObjects compares by encoded form.
func equalObjects(a, b api.Object) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	return string(x) == string(y), err
}

func specOf(o api.Object) (json.RawMessage, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Spec json.RawMessage `json:"spec"`
	}
	err = json.Unmarshal(b, &doc)
	return doc.Spec, err
}

// checkToken: the hub keeps only the hash of a token's secret, which never changes. Whoever creates one makes the secret, shows it
// once and sends the hash.
func checkToken(rq *registry.AdmissionRequest, t *api.JoinToken) error {
	refuse := func(message string) error {
		return fault.InvalidObject(rq.Kind.Kind, t.Metadata.Name, []fault.Cause{{Field: "spec.secretHash", Message: message}})
	}
	if old, ok := rq.Old.(*api.JoinToken); ok && old.Spec.SecretHash != t.Spec.SecretHash {
		return refuse("cannot be changed: make another token")
	}
	digits, ok := strings.CutPrefix(t.Spec.SecretHash, "sha256:")
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != sha256.Size {
		// The value is not repeated: somebody may have put the secret itself here.
		return refuse("must be sha256: and 64 hexadecimal digits, the hash of a secret that only its maker knows: use drover token create")
	}
	return nil
}
