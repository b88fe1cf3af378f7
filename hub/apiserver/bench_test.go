package apiserver_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/apiserver"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store/mvcc"
)

// benchHandler is the API over a store in memory that holds n ConfigMaps, without TLS, asked by an admin.
func benchHandler(b *testing.B, n int) func(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	b.Helper()
	s, err := mvcc.Open(filepath.Join(b.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	key := sha256.Sum256([]byte("bench"))
	sealer, err := registry.NewSealer(key[:])
	if err != nil {
		b.Fatal(err)
	}
	reg, err := registry.New(registry.Local(s), registry.Options{Sealer: sealer})
	if err != nil {
		b.Fatal(err)
	}
	c := reg.As(registry.Actor{Name: "user:bench"})
	if err := registry.EnsureNamespace(context.Background(), c, api.DefaultNS); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		m := &api.ConfigMap{
			TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"}, Metadata: api.ObjectMeta{Namespace: api.DefaultNS, Name: fmt.Sprintf("bench-%06d", i)},
			Data: map[string]string{"v": strings.Repeat("x", 256)},
		}
		if _, err := c.Create(context.Background(), m, client.WriteOptions{FieldManager: "bench"}); err != nil {
			b.Fatal(err)
		}
	}
	h, err := apiserver.New(apiserver.Config{Clients: reg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "bench", Organization: []string{wire.OrgAdmins}}}
	return func(method, path, body string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code/100 != 2 {
			b.Fatalf("%s %s: %d %.300s", method, path, w.Code, w.Body)
		}
		return w
	}
}

const benchMaps = "/api/v1/namespaces/default/configmaps"

func BenchmarkListOf10000(b *testing.B) {
	send := benchHandler(b, 10_000)
	for name, headers := range map[string][]string{
		"json":  nil,
		"gzip":  {"Accept-Encoding", "gzip"},
		"table": {"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"},
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = send(http.MethodGet, benchMaps, "", headers...).Body.Len()
			}
			b.ReportMetric(float64(size)/(1<<20), "MiB")
		})
	}
	w := send(http.MethodGet, benchMaps, "", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		b.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || strings.Count(string(plain), `"bench-0`) < 10_000 {
		b.Fatalf("got %d bytes, %v; want 10,000 names", len(plain), err)
	}
}

func BenchmarkGet(b *testing.B) {
	send := benchHandler(b, 10)
	for b.Loop() {
		send(http.MethodGet, benchMaps+"/bench-000003", "")
	}
}

func BenchmarkCreate(b *testing.B) {
	send := benchHandler(b, 0)
	for i := 0; b.Loop(); i++ {
		send(http.MethodPost, benchMaps, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"},"data":{"v":%q}}`, i, strings.Repeat("x", 256)), "Content-Type", "application/json")
	}
}

func BenchmarkUpdate(b *testing.B) {
	send := benchHandler(b, 1)
	for i := 0; b.Loop(); i++ {
		send(http.MethodPut, benchMaps+"/bench-000000", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench-000000"},"data":{"v":"%d"}}`, i), "Content-Type", "application/json")
	}
}

func BenchmarkApply(b *testing.B) {
	send := benchHandler(b, 1)
	for i := 0; b.Loop(); i++ {
		send(http.MethodPatch, benchMaps+"/bench-000000?fieldManager=a&force=true", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench-000000"},"data":{"v":"%d"}}`, i), "Content-Type", "application/apply-patch+yaml")
	}
}

func BenchmarkTransactionOf100(b *testing.B) {
	send := benchHandler(b, 100)
	for n := 0; b.Loop(); n++ {
		var items []string
		for i := range 100 {
			items = append(items, fmt.Sprintf(`{"verb":"apply","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bench-%06d","namespace":"default"},"data":{"v":"%d"}}}`, i, n))
		}
		send(http.MethodPost, "/apis/fleet.drover.dev/v1/transactions", `{"fieldManager":"a","force":true,"items":[`+strings.Join(items, ",")+`]}`, "Content-Type", "application/json")
	}
}
