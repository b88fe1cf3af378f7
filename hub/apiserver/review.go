package apiserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/access"
)

// The groups of reviews: questions that are posted as objects, answered in their status, and kept nowhere.
const (
	authenticationV1 = authenticationGroup + "/v1"
	authorizationV1  = authorizationGroup + "/v1"

	authorizationGroup = "authorization.k8s.io"
)

// review is one kind of question.
type review struct {
	group, resource, kind string
	namespaced            bool
	answer                func(x *exchange) error
}

func reviews() []review {
	return []review{
		{authenticationGroup, "selfsubjectreviews", "SelfSubjectReview", false, (*exchange).selfSubjectReview},
		{authenticationGroup, "tokenreviews", "TokenReview", false, (*exchange).tokenReview},
		{authorizationGroup, "localsubjectaccessreviews", "LocalSubjectAccessReview", true, (*exchange).subjectAccessReview},
		{authorizationGroup, "selfsubjectaccessreviews", "SelfSubjectAccessReview", false, (*exchange).selfSubjectAccessReview},
		{authorizationGroup, "selfsubjectrulesreviews", "SelfSubjectRulesReview", false, (*exchange).selfSubjectRulesReview},
		{authorizationGroup, "subjectaccessreviews", "SubjectAccessReview", false, (*exchange).subjectAccessReview},
	}
}

// reviewRoute knows the paths of reviews; found is false for every other path.
func reviewRoute(path string, r *http.Request) (rt route, found bool, err error) {
	group, rest, ok := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/v1/")
	if !ok || (group != authenticationGroup && group != authorizationGroup) || !strings.HasPrefix(path, "/apis/") {
		return route{}, false, nil
	}
	namespace := ""
	if in, ok := strings.CutPrefix(rest, "namespaces/"); ok {
		if namespace, rest, ok = strings.Cut(in, "/"); !ok || namespace == "" {
			return route{}, false, nil
		}
	}
	for _, v := range reviews() {
		if v.group != group || v.resource != rest || v.namespaced != (namespace != "") {
			continue
		}
		rt = route{kind: routeReview, verb: "review", path: path, ref: api.Ref{Namespace: namespace}, review: &v, serve: v.answer}
		if r.Method != http.MethodPost {
			err = fault.MethodNotAllowed.Errorf("%s is not supported on %s: questions are posted", r.Method, v.resource)
		}
		return rt, true, err
	}
	return route{}, false, nil
}

// reviewResources lists the reviews of a group for discovery.
func reviewResources(apiVersion string) []apiResource {
	var out []apiResource
	for _, v := range reviews() {
		if v.group+"/v1" == apiVersion {
			out = append(out, apiResource{Name: v.resource, Singular: strings.ToLower(v.kind), Namespaced: v.namespaced, Kind: v.kind, Verbs: []string{"create"}})
		}
	}
	return out
}

func (v *review) attributes(namespace string) access.Attributes {
	return access.Attributes{Verb: "create", Group: v.group, Resource: v.resource, Namespace: namespace}
}

// question is what all reviews have in common. Metadata and status are taken as clients send them, and mean nothing.
type question[T any] struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Spec       T               `json:"spec"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// reviewed is a review with its status.
type reviewed struct {
	Kind       string       `json:"kind"`
	APIVersion string       `json:"apiVersion"`
	Metadata   reviewedMeta `json:"metadata"`
	Spec       any          `json:"spec,omitempty"`
	Status     any          `json:"status"`
}

type reviewedMeta struct {
	Name              string    `json:"name,omitempty"`
	Namespace         string    `json:"namespace,omitempty"`
	CreationTimestamp *api.Time `json:"creationTimestamp"`
}

// readQuestion reads the question that a request posts, of the group and kind that its path says.
func readQuestion[T any](x *exchange, apiVersion, kind string) (T, error) {
	var q question[T]
	body, err := x.jsonBody()
	if err != nil {
		return q.Spec, err
	}
	v, err := fieldValidation(x.r.URL.Query())
	if err != nil {
		return q.Spec, err
	}
	decode := unmarshalStrict
	if v != strictFields {
		decode = json.Unmarshal
	}
	if err := decode(body, &q); err != nil {
		return q.Spec, fault.BadRequest.Errorf("%s: %w", kind, hideValues(err))
	}
	if (q.Kind != "" && q.Kind != kind) || (q.APIVersion != "" && q.APIVersion != apiVersion) {
		return q.Spec, fault.BadRequest.Errorf("the body is a %s of %s, the path is of %s of %s", clip(q.Kind), clip(q.APIVersion), kind, apiVersion)
	}
	return q.Spec, nil
}

// hideValues keeps what the body holds out of the error: it may be a token.
func hideValues(err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return fault.BadRequest.Errorf("%s is to be a %s", typed.Field, typed.Type)
	}
	return err
}

func (x *exchange) reply(status int, spec, st any) error {
	v := x.route.review
	return x.w.json(status, reviewed{Kind: v.kind, APIVersion: v.group + "/v1", Metadata: reviewedMeta{Namespace: x.route.ref.Namespace}, Spec: spec, Status: st})
}

// userInfo is an identity as reviews write it.
type userInfo struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

func infoOf(id *access.Identity) userInfo {
	return userInfo{Username: id.Name, UID: id.UID, Groups: id.Groups, Extra: id.Extra}
}

// selfSubjectReview tells who asks.
func (x *exchange) selfSubjectReview() error {
	v := x.route.review
	if _, err := readQuestion[struct{}](x, authenticationV1, v.kind); err != nil {
		return err
	}
	return x.reply(http.StatusCreated, nil, struct {
		UserInfo userInfo `json:"userInfo"`
	}{infoOf(&x.user.Identity)})
}

type tokenReviewSpec struct {
	Token     string   `json:"token,omitempty"`
	Audiences []string `json:"audiences,omitempty"`
}

type tokenReviewStatus struct {
	Authenticated bool     `json:"authenticated"`
	User          userInfo `json:"user"`
	Audiences     []string `json:"audiences,omitempty"`
	Error         string   `json:"error,omitempty"`
}

// tokenReview tells whose token it is. The answer does not repeat the token.
func (x *exchange) tokenReview() error {
	spec, err := readQuestion[tokenReviewSpec](x, authenticationV1, x.route.review.kind)
	switch {
	case err != nil:
		return err
	case x.s.cfg.Tokens == nil:
		return noSuchPath(x.route.path)
	case spec.Token == "":
		return fault.BadRequest.Errorf("spec.token: is missing: it is what is asked about")
	}
	var st tokenReviewStatus
	id, audiences, err := x.s.cfg.Tokens.Verify(x.r.Context(), spec.Token, spec.Audiences)
	switch {
	case err == nil:
		st = tokenReviewStatus{Authenticated: true, User: infoOf(&id), Audiences: audiences}
	case fault.Is(err, fault.Unauthorized):
		st.Error = err.Error()
	default:
		return err
	}
	return x.reply(http.StatusCreated, tokenReviewSpec{Audiences: spec.Audiences}, st)
}

// resourceAttributes are what may be asked about a resource. The selectors narrow what is asked for; rights here do not depend on them.
type resourceAttributes struct {
	Namespace     string          `json:"namespace,omitempty"`
	Verb          string          `json:"verb,omitempty"`
	Group         string          `json:"group,omitempty"`
	Version       string          `json:"version,omitempty"`
	Resource      string          `json:"resource,omitempty"`
	Subresource   string          `json:"subresource,omitempty"`
	Name          string          `json:"name,omitempty"`
	FieldSelector json.RawMessage `json:"fieldSelector,omitempty"`
	LabelSelector json.RawMessage `json:"labelSelector,omitempty"`
}

type nonResourceAttributes struct {
	Path string `json:"path,omitempty"`
	Verb string `json:"verb,omitempty"`
}

type accessReviewSpec struct {
	Resource    *resourceAttributes    `json:"resourceAttributes,omitempty"`
	NonResource *nonResourceAttributes `json:"nonResourceAttributes,omitempty"`
	User        string                 `json:"user,omitempty"`
	Groups      []string               `json:"groups,omitempty"`
	Extra       map[string][]string    `json:"extra,omitempty"`
	UID         string                 `json:"uid,omitempty"`
}

type accessReviewStatus struct {
	Allowed         bool   `json:"allowed"`
	Denied          bool   `json:"denied,omitempty"`
	Reason          string `json:"reason,omitempty"`
	EvaluationError string `json:"evaluationError,omitempty"`
}

func (s *accessReviewSpec) attributes() (access.Attributes, error) {
	r, n := s.Resource, s.NonResource
	switch {
	case (r == nil) == (n == nil):
		return access.Attributes{}, fault.Invalid.Errorf("spec: give exactly one of resourceAttributes and nonResourceAttributes")
	case n != nil:
		return access.Attributes{Verb: n.Verb, Path: n.Path}, nil
	}
	return access.Attributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}, nil
}

// decide answers about somebody in a review's status.
func (x *exchange) decide(id *access.Identity, a *access.Attributes) (accessReviewStatus, error) {
	d, err := x.s.cfg.Access.Authorize(id, a)
	return accessReviewStatus{Allowed: d.Allowed, Reason: d.Reason}, err
}

// selfSubjectAccessReview tells whether who asks may do something.
func (x *exchange) selfSubjectAccessReview() error {
	spec, err := readQuestion[accessReviewSpec](x, authorizationV1, x.route.review.kind)
	if err != nil {
		return err
	}
	if spec.User != "" || len(spec.Groups) > 0 || spec.UID != "" || len(spec.Extra) > 0 {
		return fault.BadRequest.Errorf("spec: a SelfSubjectAccessReview asks about oneself: ask about others by a SubjectAccessReview")
	}
	a, err := spec.attributes()
	if err != nil {
		return err
	}
	st, err := x.decide(&x.user.Identity, &a)
	if err != nil {
		return err
	}
	return x.reply(http.StatusCreated, spec, st)
}

// subjectAccessReview tells whether somebody may do something, who is exactly as they are described: no group is added. The one of a namespace
// is asked about that namespace alone.
func (x *exchange) subjectAccessReview() error {
	v := x.route.review
	spec, err := readQuestion[accessReviewSpec](x, authorizationV1, v.kind)
	if err != nil {
		return err
	}
	a, err := spec.attributes()
	switch {
	case err != nil:
		return err
	case spec.User == "" && len(spec.Groups) == 0:
		return fault.Invalid.Errorf("spec: give user or groups: whom it is about")
	case v.namespaced && (a.Path != "" || a.Namespace != x.route.ref.Namespace):
		return fault.Invalid.Errorf("spec.resourceAttributes.namespace: must be the path's, %q", x.route.ref.Namespace)
	}
	id := described(&spec)
	st, err := x.decide(&id, &a)
	if err != nil {
		return err
	}
	return x.reply(http.StatusCreated, spec, st)
}

func described(s *accessReviewSpec) access.Identity {
	id := access.Identity{Kind: access.Person, Name: s.User, Groups: s.Groups, UID: s.UID, Extra: s.Extra}
	if _, _, ok := access.AccountOf(s.User); ok {
		id.Kind = access.ServiceAccount
	} else if s.User == access.NameNobody {
		id.Kind = access.Nobody
	}
	return id
}

type rulesReviewSpec struct {
	Namespace string `json:"namespace,omitempty"`
}

type resourceRule struct {
	Verbs         []string `json:"verbs"`
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

type nonResourceRule struct {
	Verbs           []string `json:"verbs"`
	NonResourceURLs []string `json:"nonResourceURLs"`
}

type rulesReviewStatus struct {
	ResourceRules    []resourceRule    `json:"resourceRules"`
	NonResourceRules []nonResourceRule `json:"nonResourceRules"`
	Incomplete       bool              `json:"incomplete"`
	EvaluationError  string            `json:"evaluationError,omitempty"`
}

// selfSubjectRulesReview lists what who asks may do in a namespace.
func (x *exchange) selfSubjectRulesReview() error {
	spec, err := readQuestion[rulesReviewSpec](x, authorizationV1, x.route.review.kind)
	if err != nil {
		return err
	}
	if spec.Namespace == "" {
		return fault.BadRequest.Errorf("spec.namespace: is missing: rights are listed for one namespace")
	}
	rules, err := x.s.cfg.Access.RulesOf(&x.user.Identity, spec.Namespace)
	if err != nil {
		return err
	}
	st := rulesReviewStatus{ResourceRules: []resourceRule{}, NonResourceRules: []nonResourceRule{}}
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			st.NonResourceRules = append(st.NonResourceRules, nonResourceRule{r.Verbs, r.NonResourceURLs})
		}
		if len(r.Resources) > 0 {
			st.ResourceRules = append(st.ResourceRules, resourceRule{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames})
		}
	}
	return x.reply(http.StatusCreated, spec, st)
}
