package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

const (
	authenticationV1 = "authentication.k8s.io/v1"
	authorizationV1  = "authorization.k8s.io/v1"
)

// UserInfo is who the hub takes somebody for.
type UserInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// typed is the head of a review.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// review posts a question of Kubernetes' kind, which writes nothing.
func (c *Client) review(ctx context.Context, path string, question, answer any) error {
	b, err := json.Marshal(question)
	if err != nil {
		return fault.BadRequest.Errorf("encode: %w", err)
	}
	return c.readInto(ctx, call{method: http.MethodPost, path: path, body: b, media: jsonMedia}, answer)
}

// WhoAmI asks the hub for whom it takes the caller.
func (c *Client) WhoAmI(ctx context.Context) (UserInfo, error) {
	var a struct {
		Status struct {
			UserInfo UserInfo `json:"userInfo"`
		} `json:"status"`
	}
	err := c.review(ctx, "/apis/"+authenticationV1+"/selfsubjectreviews", typed{authenticationV1, "SelfSubjectReview"}, &a)
	return a.Status.UserInfo, err
}

// Access is something that somebody might do: a verb on a resource, or, with Path, on something that is none.
type Access struct {
	Verb        string
	Group       string // of the resource; "" is the core group
	Resource    string
	Subresource string
	Namespace   string // "" = all, or none
	Name        string // "" = every one
	Path        string
}

type resourceAttributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

type nonResourceAttributes struct {
	Path string `json:"path"`
	Verb string `json:"verb"`
}

type accessReview struct {
	typed
	Spec struct {
		Resource    *resourceAttributes    `json:"resourceAttributes,omitempty"`
		NonResource *nonResourceAttributes `json:"nonResourceAttributes,omitempty"`
	} `json:"spec"`
}

// Decision is the hub's answer about an Access.
type Decision struct {
	Allowed         bool   `json:"allowed"`
	Denied          bool   `json:"denied,omitempty"`
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
}

// CanI asks whether the caller may do it.
func (c *Client) CanI(ctx context.Context, a Access) (Decision, error) {
	q := accessReview{typed: typed{authorizationV1, "SelfSubjectAccessReview"}}
	if a.Path != "" {
		q.Spec.NonResource = &nonResourceAttributes{Path: a.Path, Verb: a.Verb}
	} else {
		q.Spec.Resource = &resourceAttributes{
			Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		}
	}
	var answer struct {
		Status Decision `json:"status"`
	}
	err := c.review(ctx, "/apis/"+authorizationV1+"/selfsubjectaccessreviews", q, &answer)
	return answer.Status, err
}

// Rights is all that the caller may do in a namespace, as far as the hub can list it.
type Rights struct {
	ResourceRules []struct {
		Verbs         []string `json:"verbs"`
		APIGroups     []string `json:"apiGroups"`
		Resources     []string `json:"resources"`
		ResourceNames []string `json:"resourceNames,omitempty"`
	} `json:"resourceRules"`
	NonResourceRules []struct {
		Verbs           []string `json:"verbs"`
		NonResourceURLs []string `json:"nonResourceURLs"`
	} `json:"nonResourceRules"`
	Incomplete      bool   `json:"incomplete"`
	EvaluationError string `json:"evaluationError,omitempty"`
}

// MyRights lists them.
func (c *Client) MyRights(ctx context.Context, namespace string) (Rights, error) {
	var q struct {
		typed
		Spec struct {
			Namespace string `json:"namespace"`
		} `json:"spec"`
	}
	q.typed, q.Spec.Namespace = typed{authorizationV1, "SelfSubjectRulesReview"}, namespace
	var a struct {
		Status Rights `json:"status"`
	}
	err := c.review(ctx, "/apis/"+authorizationV1+"/selfsubjectrulesreviews", q, &a)
	return a.Status, err
}

// TokenSpec is what a token of a service account is to be. Zero values are the hub's defaults.
type TokenSpec struct {
	Audiences []string
	Life      time.Duration
}

// IssuedToken is a token as it was made. It is kept nowhere on the hub.
type IssuedToken struct {
	Token Token
	Ends  time.Time
}

// ServiceAccountToken has a token made for a service account.
func (c *Client) ServiceAccountToken(ctx context.Context, namespace, name string, spec TokenSpec) (IssuedToken, error) {
	path, err := pathOf(api.Ref{Kind: api.KindServiceAccount, Namespace: namespace, Name: name})
	if err != nil {
		return IssuedToken{}, err
	}
	var q struct {
		typed
		Metadata struct{} `json:"metadata"`
		Spec     struct {
			Audiences         []string `json:"audiences"`
			ExpirationSeconds *int64   `json:"expirationSeconds,omitempty"`
		} `json:"spec"`
	}
	q.typed, q.Spec.Audiences = typed{authenticationV1, "TokenRequest"}, spec.Audiences
	if spec.Life > 0 {
		s := int64(spec.Life / time.Second)
		q.Spec.ExpirationSeconds = &s
	}
	var a struct {
		Status struct {
			Token               string    `json:"token"`
			ExpirationTimestamp time.Time `json:"expirationTimestamp"`
		} `json:"status"`
	}
	if err := c.review(ctx, path+"/token", q, &a); err != nil {
		return IssuedToken{}, err
	}
	t, err := CheckToken([]byte(a.Status.Token))
	if err != nil {
		return IssuedToken{}, fault.Internal.Errorf("the hub's answer: %w", err)
	}
	return IssuedToken{Token: t, Ends: a.Status.ExpirationTimestamp}, nil
}
