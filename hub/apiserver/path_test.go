package apiserver_test

import (
	"strings"
	"testing"
)

func TestPathThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	b := startHub(t, nil).admin()
	b.want(201, b.send("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"kept"}}`))
	for _, tt := range []struct{ method, path, want string }{
		{"DELETE", "/api/v1/namespaces/default/configmaps/", "a namespace or name is missing"},
		{"DELETE", "/api/v1/namespaces//configmaps", "a namespace or name is missing"},
		{"GET", "/api/v1/namespaces//configmaps", "a namespace or name is missing"},
		{"GET", "/api/v1/namespaces/default/configmaps/kept%2Fstatus", "may not hold a slash"},
		{"DELETE", "/api/v1/namespaces/default/configmaps/%2e%2e", "is no name"},
	} {
		r := b.want(400, b.send(tt.method, tt.path, ""))
		if !strings.Contains(r.body, tt.want) {
			t.Errorf("%s %s: got %s, want %q", tt.method, tt.path, r.body, tt.want)
		}
	}
	b.want(200, b.get("/api/v1/namespaces/default/configmaps/"))
	b.want(200, b.get("/api/v1/namespaces/default/configmaps/kept"))
}
