package admission

import (
	"strings"
	"testing"
)

func TestReferencesReadAsDockerAndContainerdReadThem(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for in, want := range map[string]string{
		"nginx":                                "docker.io/library/nginx:latest",
		"nginx:1.27":                           "docker.io/library/nginx:1.27",
		"index.docker.io/nginx":                "docker.io/library/nginx:latest",
		"acme/camera":                          "docker.io/acme/camera:latest",
		"ghcr.io/acme/camera:1.4":              "ghcr.io/acme/camera:1.4",
		"localhost/camera":                     "localhost/camera:latest",
		"localhost:5000/camera":                "localhost:5000/camera:latest",
		"127.0.0.1:5000/a/b/c:v1":              "127.0.0.1:5000/a/b/c:v1",
		"[::1]:5000/camera:v1":                 "[::1]:5000/camera:v1",
		"reg.example/camera@" + digest:         "reg.example/camera@" + digest,
		"reg.example/camera:1.4@" + digest:     "reg.example/camera@" + digest,
		"a.b/c__d/e-f.g_h:T_a.g-1":             "a.b/c__d/e-f.g_h:T_a.g-1",
		"docker.io/library/nginx@" + digest:    "docker.io/library/nginx@" + digest,
		"registry.example:443/team/app:latest": "registry.example:443/team/app:latest",
	} {
		got, err := ParseReference(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestMalformedReferencesAreRefusedWithAReason(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "empty",
		"Nginx":                    "lower-case",
		"a//b":                     "no repository name",
		"acme/camera:":             "tag",
		"acme/camera:" + long(129): "tag",
		"acme/camera@sha256:abc":   "64 hexadecimal digits",
		"acme/camera@md5:abc":      "sha256",
		"reg.example:port/a":       "no registry host",
		"-reg.example/a":           "no registry host",
		"http://reg.example/a":     "http",
		"a b":                      "lower-case",
		long(600):                  "600 bytes",
		"reg.example/" + long(300): "300 bytes",
		"reg.example/../etc":       "no repository name",
	} {
		if got, err := ParseReference(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %+v, %v; want an error with %q", in, got, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"nginx", "a.b:1/c/d:e@sha256:" + strings.Repeat("0", 64), "[::1]:5/x", "a/b:c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseReference(s)
		if err != nil {
			return
		}
		again, err := ParseReference(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q: canonical form %q reads as %q, %v", s, r, again, err)
		}
	})
}
