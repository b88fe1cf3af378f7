package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Level is how much of a request is put on record.
type Level string

// The levels, as in Kubernetes. RequestResponse is not one of them: answers hold what the store has anyway.
const (
	LevelNone     Level = "None"
	LevelMetadata Level = "Metadata" // who, what, when, outcome
	LevelRequest  Level = "Request"  // and the body, save of what holds secrets
)

// Form of a policy file, and its bounds.
const (
	policyVersion = "audit.k8s.io/v1"
	policyKind    = "Policy"
	maxPolicy     = 256 << 10 // bytes
	maxRules      = 1000
)

// Policy is an ordered list of rules. The first that matches a request says its level; where none does it is None. It is a part of
// Kubernetes' audit.k8s.io/v1 Policy.
type Policy struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Rules []Rule `yaml:"rules"`
}

// Rule matches a request when each of its lists that is not empty does. Resources and NonResourceURLs are alternatives; a rule without
// either matches both.
type Rule struct {
	Level           Level            `yaml:"level"`
	Users           []string         `yaml:"users"`
	UserGroups      []string         `yaml:"userGroups"`
	Verbs           []string         `yaml:"verbs"`
	Resources       []GroupResources `yaml:"resources"`
	Namespaces      []string         `yaml:"namespaces"` // "" = what has none
	NonResourceURLs []string         `yaml:"nonResourceURLs"`
}

// GroupResources are resources of one API group: "secrets", "assignments/log", "assignments/*", "*/status", "*" or, when empty, all.
type GroupResources struct {
	Group         string   `yaml:"group"` // "" = core
	Resources     []string `yaml:"resources"`
	ResourceNames []string `yaml:"resourceNames"`
}

// Attributes are what a request is judged by.
type Attributes struct {
	User      string // name without its kind
	Groups    []string
	Verb      string
	Group     string
	Resource  string // plural; "" = no resource: Path counts
	Sub       string
	Namespace string
	Name      string
	Path      string
}

// ReadPolicy reads a policy file.
func ReadPolicy(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPolicy+1))
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	p, err := ParsePolicy(b)
	if err != nil {
		return nil, fmt.Errorf("audit policy %s: %w", path, err)
	}
	return p, nil
}

// ParsePolicy reads a policy strictly: what it does not know it refuses by name.
func ParsePolicy(b []byte) (*Policy, error) {
	if len(b) > maxPolicy {
		return nil, fmt.Errorf("more than %d bytes", maxPolicy)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	p := &Policy{}
	if err := d.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if err := d.Decode(&Policy{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return p, p.validate()
}

func (p *Policy) validate() error {
	if p.APIVersion != policyVersion || p.Kind != policyKind {
		return fmt.Errorf("it is a %q %q, want %s %s", p.APIVersion, p.Kind, policyVersion, policyKind)
	}
	if len(p.Rules) == 0 || len(p.Rules) > maxRules {
		return fmt.Errorf("rules: got %d, want 1 to %d", len(p.Rules), maxRules)
	}
	var errs []error
	for i, r := range p.Rules {
		switch r.Level {
		case LevelNone, LevelMetadata, LevelRequest:
		case "RequestResponse":
			errs = append(errs, fmt.Errorf("rules[%d].level: RequestResponse is not kept here; use Request", i))
		default:
			errs = append(errs, fmt.Errorf("rules[%d].level: %q: want None, Metadata or Request", i, r.Level))
		}
		if len(r.Resources) > 0 && len(r.NonResourceURLs) > 0 {
			errs = append(errs, fmt.Errorf("rules[%d]: resources and nonResourceURLs are alternatives: write two rules", i))
		}
		for _, u := range r.NonResourceURLs {
			if u != "*" && (!strings.HasPrefix(u, "/") || strings.Contains(strings.TrimSuffix(u, "*"), "*")) {
				errs = append(errs, fmt.Errorf("rules[%d].nonResourceURLs: %q: want a path, with * at its end only", i, u))
			}
		}
	}
	return errors.Join(errs...)
}

// Level is that of the first rule that matches.
func (p *Policy) Level(a *Attributes) Level {
	for i := range p.Rules {
		if p.Rules[i].matches(a) {
			return p.Rules[i].Level
		}
	}
	return LevelNone
}

func (r *Rule) matches(a *Attributes) bool {
	switch {
	case len(r.Users) > 0 && !slices.Contains(r.Users, a.User):
		return false
	case len(r.UserGroups) > 0 && !slices.ContainsFunc(r.UserGroups, func(g string) bool { return slices.Contains(a.Groups, g) }):
		return false
	case len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb):
		return false
	}
	if a.Resource == "" {
		return len(r.Resources) == 0 && len(r.Namespaces) == 0 && (len(r.NonResourceURLs) == 0 || slices.ContainsFunc(r.NonResourceURLs, a.at))
	}
	if len(r.NonResourceURLs) > 0 || len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	return len(r.Resources) == 0 || slices.ContainsFunc(r.Resources, a.isOf)
}

func (a *Attributes) at(url string) bool {
	if prefix, any := strings.CutSuffix(url, "*"); any {
		return strings.HasPrefix(a.Path, prefix)
	}
	return a.Path == url
}

func (a *Attributes) isOf(g GroupResources) bool {
	if g.Group != a.Group || len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name) {
		return false
	}
	return len(g.Resources) == 0 || slices.ContainsFunc(g.Resources, func(want string) bool {
		resource, sub, hasSub := strings.Cut(want, "/")
		switch {
		case want == "*":
			return true
		case resource != "*" && resource != a.Resource:
			return false
		case !hasSub:
			return a.Sub == ""
		}
		return sub == "*" && a.Sub != "" || sub == a.Sub && sub != ""
	})
}

// DefaultPolicy is the built-in one; docs/audit.md shows it.
func DefaultPolicy() *Policy {
	read := []string{"get", "list", "watch"}
	return &Policy{APIVersion: policyVersion, Kind: policyKind, Rules: []Rule{
		{Level: LevelMetadata, Verbs: read, Resources: []GroupResources{{Resources: []string{"secrets"}}}},
		{Level: LevelMetadata, Verbs: read, Resources: []GroupResources{{Group: "fleet.drover.dev", Resources: []string{"assignments/log", "jointokens"}}}},
		{Level: LevelMetadata, Verbs: read, NonResourceURLs: []string{"/drover/v1/why", "/drover/v1/audit", "/drover/v1/hub/snapshot"}},
		{Level: LevelNone, Verbs: read},
		{Level: LevelNone, NonResourceURLs: []string{"/apis/authorization.k8s.io/*", "/apis/authentication.k8s.io/*"}}, // questions, which change nothing
		{Level: LevelMetadata},
	}}
}
