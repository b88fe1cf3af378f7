package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// Limits of what a registry may answer, in bytes.
const (
	maxManifest = 4 << 20
	maxToken    = 64 << 10
	maxError    = 16 << 10
)

// manifestTypes are what a registry may answer a tag with: an index of platforms or one platform's manifest.
var manifestTypes = strings.Join([]string{
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
}, ", ")

// ResolverConfig configures a Resolver. The zero value asks every registry but loopback's over HTTPS.
type ResolverConfig struct {
	// Plain lists registries (host or host:port) that are asked over HTTP. Loopback always is.
	Plain []string
	// Timeout bounds one resolution with all its requests; default 8 s, so that an apply ends within its own deadline.
	Timeout time.Duration
	// Transport carries the requests; default: a transport of its own with a 3 s dial timeout.
	Transport http.RoundTripper
}

// Resolver asks OCI registries for the digest of a tag. It keeps no state beyond idle connections and is safe for
// concurrent use.
type Resolver struct {
	cfg    ResolverConfig
	client *http.Client
}

// NewResolver returns a Resolver.
func NewResolver(cfg ResolverConfig) *Resolver {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 8 * time.Second
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSHandshakeTimeout:   3 * time.Second,
			ResponseHeaderTimeout: 6 * time.Second,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   2,
		}
	}
	return &Resolver{cfg: cfg, client: &http.Client{Transport: cfg.Transport, CheckRedirect: refuseDowngrade}}
}

// refuseDowngrade keeps a redirect from moving a digest, or a token, from HTTPS to HTTP.
func refuseDowngrade(rq *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return errors.New("more than 5 redirects")
	}
	if via[0].URL.Scheme == "https" && rq.URL.Scheme != "https" {
		return errors.New("redirect from HTTPS to HTTP")
	}
	return nil
}

// Resolve returns registry/repository@sha256:HEX of an image as a user wrote it. A reference with a digest is its own
// answer, without asking. Errors: fault.Invalid when the reference is malformed, the registry says that there is no such
// tag or repository, or it denies reading it; fault.Unavailable when it could not be asked, with RetryAfter where it said so.
func (r *Resolver) Resolve(ctx context.Context, image string) (string, error) {
	ref, err := ParseReference(image)
	if err != nil {
		return "", fault.Invalid.Errorf("%v", err)
	}
	if ref.Digest != "" {
		return ref.At(ref.Digest), nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	s := &session{r: r, ref: ref, ctx: ctx}
	digest, err := s.digest()
	if err != nil {
		return "", err
	}
	return ref.At(digest), nil
}

// session is one resolution: it carries the token from the challenge to the requests after it.
type session struct {
	r     *Resolver
	ref   Reference
	ctx   context.Context // lives for one call
	token string
}

// digest asks with HEAD, which costs no rate limit at the large registries, and with GET where HEAD does not tell.
func (s *session) digest() (string, error) {
	resp, err := s.manifest(http.MethodHead)
	if err != nil {
		return "", err
	}
	drain(resp)
	if resp.StatusCode == http.StatusOK {
		if d := resp.Header.Get("Docker-Content-Digest"); referenceGrammar.digest.MatchString(d) {
			return d, nil
		}
	}
	if resp, err = s.manifest(http.MethodGet); err != nil {
		return "", err
	}
	defer drain(resp)
	if resp.StatusCode != http.StatusOK {
		return "", s.refusal(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return "", s.unavailable("read manifest: %v", err)
	}
	if len(body) > maxManifest {
		return "", s.unavailable("manifest is larger than %d bytes", maxManifest)
	}
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// manifest sends one request, and a second one with a token where the registry asks for it.
func (s *session) manifest(method string) (*http.Response, error) {
	resp, err := s.send(method)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || s.token != "" {
		return resp, err
	}
	challenge := resp.Header.Get("WWW-Authenticate")
	drain(resp)
	if s.token, err = s.anonymousToken(challenge); err != nil {
		return nil, err
	}
	return s.send(method)
}

func (s *session) send(method string) (*http.Response, error) {
	u := s.r.base(s.ref.Registry) + "/v2/" + s.ref.Repository + "/manifests/" + s.ref.Tag
	rq, err := http.NewRequestWithContext(s.ctx, method, u, nil)
	if err != nil {
		return nil, s.unavailable("%v", err)
	}
	rq.Header.Set("Accept", manifestTypes)
	if s.token != "" {
		rq.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.r.client.Do(rq)
	if err != nil {
		return nil, s.unavailable("%v", withoutURL(err))
	}
	return resp, nil
}

// base is the scheme and host that serve a registry.
func (r *Resolver) base(registry string) string {
	host := registry
	if registry == defaultRegistry {
		host = defaultRegistryHost
	}
	if r.plain(registry) {
		return "http://" + host
	}
	return "https://" + host
}

func (r *Resolver) plain(registry string) bool {
	if slices.Contains(r.cfg.Plain, registry) {
		return true
	}
	host := registry
	if h, _, err := net.SplitHostPort(registry); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// refusal tells a registry's "there is no such image" from everything that may pass.
func (s *session) refusal(resp *http.Response) error {
	codes := errorCodes(resp.Body)
	switch {
	case resp.StatusCode == http.StatusNotFound && slices.ContainsFunc(codes, saysMissing):
		return fault.Invalid.Errorf("image %s does not exist: its registry answers %s; check repository and tag", s.ref, codes[0])
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fault.Invalid.Errorf("image %s: registry denies anonymous reads of it, or it does not exist (HTTP %d)", s.ref, resp.StatusCode)
	case resp.StatusCode == http.StatusNotFound:
		return s.unavailable("HTTP 404 without a registry's error: is there a registry at this address?")
	}
	err := s.unavailable("HTTP %d", resp.StatusCode)
	if secs, perr := time.ParseDuration(resp.Header.Get("Retry-After") + "s"); perr == nil && secs > 0 {
		err.RetryAfter = secs
	}
	return err
}

func saysMissing(code string) bool {
	return code == "MANIFEST_UNKNOWN" || code == "NAME_UNKNOWN" || code == "NOT_FOUND" || code == "NAME_INVALID"
}

// errorCodes reads the codes of the distribution specification's error body; none when it is something else.
func errorCodes(body io.Reader) []string {
	var e struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(body, maxError)).Decode(&e) != nil {
		return nil
	}
	var codes []string
	for _, x := range e.Errors {
		codes = append(codes, x.Code)
	}
	return codes
}

func (s *session) unavailable(format string, args ...any) *fault.Error {
	return fault.Unavailable.Errorf("registry of %s cannot be asked: %s", s.ref, fmt.Sprintf(format, args...))
}

// withoutURL drops the address that net/http puts before the cause: the reference names it already.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// drain lets the connection be used again; a body that is longer than this is not worth it.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxError)
	_ = resp.Body.Close()
}
