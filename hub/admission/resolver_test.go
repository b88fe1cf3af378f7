package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/drover-fleet/drover/api/fault"
)

const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve starts a loopback server and returns its host:port.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// push puts a manifest into a registry of its own.
func push(t *testing.T, host, repository, tag string) {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/"+repository+"/manifests/"+tag, strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/vnd.oci.image.index.v1+json")
	resp, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("push: %s", resp.Status)
	}
}

func TestTagsOfARealRegistryBecomeDigests(t *testing.T) {
	host := serve(t, registry.New(registry.Logger(discardLog())))
	push(t, host, "acme/camera", "1.4")
	r := NewResolver(ResolverConfig{})
	got, err := r.Resolve(t.Context(), host+"/acme/camera:1.4")
	if want := host + "/acme/camera@" + digestOf(manifest); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, missing := range []string{"/acme/camera:9", "/acme/none:1"} {
		if _, err := r.Resolve(t.Context(), host+missing); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), host+missing) {
			t.Errorf("%s: got %v, want Invalid that names the image", missing, err)
		}
	}
}

// TestRegistryAnswers is what each answer means: refuse the write, accept it for later, or a digest.
func TestRegistryAnswers(t *testing.T) {
	status := func(code int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	missing := `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    fault.Class // "" = resolved to the manifest's digest
	}{
		{"digest in the header of HEAD", status(200, "", "Docker-Content-Digest", digestOf(manifest)), ""},
		{"no digest in the header", status(200, manifest), ""},
		{"a digest that is none", status(200, manifest, "Docker-Content-Digest", "sha256:../../x"), ""},
		{"unknown manifest", status(404, missing), fault.Invalid},
		{"unknown repository", status(404, `{"errors":[{"code":"NAME_UNKNOWN"}]}`), fault.Invalid},
		{"404 of something else", status(404, "<html>"), fault.Unavailable},
		{"denied", status(403, ""), fault.Invalid},
		{"basic authentication", status(401, "", "WWW-Authenticate", `Basic realm="x"`), fault.Invalid},
		{"no challenge at all", status(401, ""), fault.Invalid},
		{"slow down", status(429, "", "Retry-After", "7"), fault.Unavailable},
		{"broken", status(500, missing), fault.Unavailable},
		{"endless manifest", func(w http.ResponseWriter, _ *http.Request) {
			for range 6 << 10 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}, fault.Unavailable},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, fault.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := serve(t, tt.handler)
			got, err := NewResolver(ResolverConfig{}).Resolve(t.Context(), host+"/a/b:c")
			if fault.ClassOf(err) != tt.want {
				t.Fatalf("got %q, class %q (%v); want class %q", got, fault.ClassOf(err), err, tt.want)
			}
			if want := host + "/a/b@" + digestOf(manifest); err == nil && got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if tt.name == "slow down" && fault.RetryAfter(err) != 7*time.Second {
				t.Errorf("retry after: got %s, want 7s", fault.RetryAfter(err))
			}
		})
	}
}

func TestUnreachableRegistryIsUnavailable(t *testing.T) {
	r := NewResolver(ResolverConfig{Timeout: 200 * time.Millisecond})
	release := make(chan struct{})
	hung := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, rq *http.Request) {
		select {
		case <-release:
		case <-rq.Context().Done():
		}
	}))
	defer close(release)
	for _, host := range []string{"127.0.0.1:1", hung, "no-such-host.invalid"} {
		if _, err := r.Resolve(t.Context(), host+"/a/b:c"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: got %v, want Unavailable", host, err)
		}
	}
}

func TestDigestIsItsOwnAnswerWithoutAsking(t *testing.T) {
	want := "127.0.0.1:1/a/b@" + digestOf("x")
	got, err := NewResolver(ResolverConfig{}).Resolve(t.Context(), "127.0.0.1:1/a/b:tag@"+digestOf("x"))
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestAnonymousTokenIsFetchedWhereTheRegistryAsksForOne follows the challenge to a token server and back.
func TestAnonymousTokenIsFetchedWhereTheRegistryAsksForOne(t *testing.T) {
	mux := http.NewServeMux()
	host := serve(t, mux)
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("service") != "reg, with comma" || q.Get("scope") != "repository:a/b:pull" || r.Header.Get("Authorization") != "" {
			t.Errorf("token request: got %v", q)
		}
		_, _ = io.WriteString(w, `{"access_token":"t0ken"}`)
	})
	mux.HandleFunc("/v2/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="reg, with comma",scope="x"`, host))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Docker-Content-Digest", digestOf(manifest))
	})
	got, err := NewResolver(ResolverConfig{}).Resolve(t.Context(), host+"/a/b:c")
	if err != nil || !strings.HasSuffix(got, digestOf(manifest)) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOnlyLoopbackAndListedRegistriesAreAskedWithoutTLS(t *testing.T) {
	r := NewResolver(ResolverConfig{Plain: []string{"reg.lan:5000"}})
	for registry, want := range map[string]string{
		"reg.lan:5000": "http://reg.lan:5000", "reg.lan": "https://reg.lan", "localhost:1": "http://localhost:1", "127.0.0.9": "http://127.0.0.9",
		"[::1]:5000": "http://[::1]:5000", "10.0.0.1:5000": "https://10.0.0.1:5000", "docker.io": "https://registry-1.docker.io", "localhost.example": "https://localhost.example",
	} {
		if got := r.base(registry); got != want {
			t.Errorf("%s: got %s, want %s", registry, got, want)
		}
	}
}
