package admission

import (
	"fmt"
	"regexp"
	"strings"
)

// The registry that a reference without a host means, and the host that serves it.
const (
	defaultRegistry     = "docker.io"
	defaultRegistryHost = "registry-1.docker.io"
	defaultTag          = "latest"
)

// Lengths as the OCI distribution specification and its registries bound them, in bytes.
const (
	maxReference  = 512
	maxRepository = 255
)

// Reference is a parsed image reference. Exactly one of Tag and Digest says which image; where the user wrote both, the
// digest rules and the tag is kept for people only.
type Reference struct {
	Registry   string // docker.io, ghcr.io, 127.0.0.1:5000
	Repository string // library/nginx
	Tag        string
	Digest     string // sha256:HEX, or empty
}

// Name is registry/repository, without tag and digest.
func (r Reference) Name() string { return r.Registry + "/" + r.Repository }

// At is the name pinned to a digest.
func (r Reference) At(digest string) string { return r.Name() + "@" + digest }

// String is the full reference: the digest where there is one, else the tag.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.At(r.Digest)
	}
	return r.Name() + ":" + r.Tag
}

type grammar struct{ host, component, tag, digest *regexp.Regexp }

var referenceGrammar = grammar{
	host:      regexp.MustCompile(`^(\[[0-9a-fA-F:]+\]|[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*)(:[0-9]{1,5})?$`),
	component: regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`),
	tag:       regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`),
	digest:    regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
}

// ParseReference reads an image reference as containerd and Docker do: without a host it is of docker.io, there without a
// slash of library/, without tag and digest it is latest.
func ParseReference(s string) (Reference, error) {
	if s == "" {
		return Reference{}, fmt.Errorf("image is empty: write one as registry.example/camera:1.4")
	}
	if len(s) > maxReference {
		return Reference{}, fmt.Errorf("image reference of %d bytes, at most %d are allowed", len(s), maxReference)
	}
	rest, digest, pinned := strings.Cut(s, "@")
	if pinned && !referenceGrammar.digest.MatchString(digest) {
		return Reference{}, fmt.Errorf("image %q: digest must be sha256: and 64 hexadecimal digits", s)
	}
	r := Reference{Digest: digest}
	// A colon after the last slash starts a tag; before it, a port.
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		rest, r.Tag = rest[:i], rest[i+1:]
		if !referenceGrammar.tag.MatchString(r.Tag) {
			return Reference{}, fmt.Errorf("image %q: tag %q must be letters, digits, '_', '.' and '-', at most 128", s, r.Tag)
		}
	}
	if r.Tag == "" && digest == "" {
		r.Tag = defaultTag
	}
	r.Registry, r.Repository = splitRegistry(rest)
	return r, r.check(s)
}

// splitRegistry takes the first component as a host when it can be no repository's: it has a dot or a port, or is
// localhost.
func splitRegistry(name string) (registry, repository string) {
	first, rest, slash := strings.Cut(name, "/")
	if slash && (strings.ContainsAny(first, ".:") || first == "localhost") {
		registry, repository = first, rest
	} else {
		registry, repository = defaultRegistry, name
	}
	if registry == "index.docker.io" {
		registry = defaultRegistry
	}
	if registry == defaultRegistry && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return registry, repository
}

func (r Reference) check(written string) error {
	if !referenceGrammar.host.MatchString(r.Registry) {
		return fmt.Errorf("image %q: %q is no registry host: write host or host:port", written, r.Registry)
	}
	if len(r.Repository) > maxRepository {
		return fmt.Errorf("image %q: repository of %d bytes, at most %d are allowed", written, len(r.Repository), maxRepository)
	}
	for c := range strings.SplitSeq(r.Repository, "/") {
		if !referenceGrammar.component.MatchString(c) {
			return fmt.Errorf("image %q: %q is no repository name: lower-case letters and digits, joined by single '.', '_' or '-'", written, c)
		}
	}
	return nil
}
