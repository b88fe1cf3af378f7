package apiserver

import (
	"net/http"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/tokens"
)

type tokenRequestSpec struct {
	Audiences         []string        `json:"audiences"`
	ExpirationSeconds *int64          `json:"expirationSeconds,omitempty"`
	BoundObject       *boundObjectRef `json:"boundObjectRef,omitempty"`
}

type boundObjectRef struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
}

type tokenRequestStatus struct {
	Token               string   `json:"token"`
	ExpirationTimestamp api.Time `json:"expirationTimestamp"`
}

// tokenRequest makes a token for the service account that the path names. It is the one answer that shows it.
func (x *exchange) tokenRequest() error {
	if x.s.cfg.Tokens == nil {
		return noSuchPath(x.route.path)
	}
	spec, err := readQuestion[tokenRequestSpec](x, authenticationV1, "TokenRequest")
	if err != nil {
		return err
	}
	if dry, err := dryRun(x.r.URL.Query()["dryRun"]); err != nil {
		return err
	} else if dry {
		return fault.BadRequest.Errorf("dryRun: a token is made or not")
	}
	ref := x.route.ref
	rq := tokens.Request{Namespace: ref.Namespace, Account: ref.Name, Audiences: spec.Audiences}
	if s := spec.ExpirationSeconds; s != nil {
		const most = int64(tokens.MaxLife / time.Second)
		if *s <= 0 || *s > most {
			return fault.Invalid.Errorf("spec.expirationSeconds: %d is not %d to %d", *s, int64(tokens.MinLife/time.Second), most)
		}
		rq.Life = time.Duration(*s) * time.Second
	}
	if b := spec.BoundObject; b != nil {
		k, ok := api.KindOf(b.APIVersion, b.Kind)
		if !ok || b.Name == "" {
			return fault.Invalid.Errorf("spec.boundObjectRef: give kind, apiVersion and name of an Assignment (%s) or a Secret (v1)", api.FleetV1)
		}
		rq.Bound = &tokens.Bound{Kind: k, Name: b.Name, UID: b.UID}
	}
	t, err := x.s.cfg.Tokens.Issue(x.r.Context(), rq)
	if err != nil {
		return err
	}
	life := int64(t.Expires.Sub(t.Made) / time.Second)
	spec.Audiences, spec.ExpirationSeconds = t.Audiences, &life
	made := api.TimeOf(t.Made)
	return x.w.json(http.StatusCreated, reviewed{
		Kind: "TokenRequest", APIVersion: authenticationV1, Metadata: reviewedMeta{Name: ref.Name, Namespace: ref.Namespace, CreationTimestamp: &made},
		Spec: spec, Status: tokenRequestStatus{Token: string(t.Text), ExpirationTimestamp: api.TimeOf(t.Expires)},
	})
}
