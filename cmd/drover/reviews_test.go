package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client/remote"
)

// tokenOf is a token in the form of a JWT, which the reviews of withReviews believe.
func tokenOf(name string, end time.Time) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]string{"alg": "ES256"}) + "." + part(map[string]any{"sub": name, "exp": end.Unix()}) + ".c2lnbmVk"
}

// asked is who sends a request, by certificate or token; "" is nobody.
func asked(r *http.Request) (name string, groups []string) {
	if as := r.Header.Get(remote.HeaderAsUser); as != "" {
		return as, append(r.Header.Values(remote.HeaderAsGroup), "system:authenticated")
	}
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		parts := strings.Split(t, ".")
		if len(parts) != 3 {
			return "", nil
		}
		b, err := base64.RawURLEncoding.DecodeString(parts[1])
		var claims struct {
			Sub string
			Exp int64
		}
		if err != nil || json.Unmarshal(b, &claims) != nil || time.Now().Unix() >= claims.Exp {
			return "", nil
		}
		return claims.Sub, []string{"system:serviceaccounts", "system:authenticated"}
	}
	if len(r.TLS.PeerCertificates) > 0 {
		s := r.TLS.PeerCertificates[0].Subject
		return s.CommonName, append(s.Organization, "system:authenticated")
	}
	return "", nil
}

// withReviews answers who one is and what one may, in Kubernetes' forms: admins everything, others to get and list workloads.
func (h *hub) withReviews(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	review := func(path string, answer func(r *http.Request, q map[string]any) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var q map[string]any
			err := json.NewDecoder(r.Body).Decode(&q)
			var status any
			if name, _ := asked(r); err == nil && name == "" {
				err = fault.Unauthorized.Errorf("the token is not one of this hub's, or has ended")
			}
			if err == nil {
				status, err = answer(r, q)
			}
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				st := fault.StatusOf(err)
				w.WriteHeader(st.Code)
				_ = json.NewEncoder(w).Encode(st)
				return
			}
			w.WriteHeader(http.StatusCreated)
			q["status"] = status
			_ = json.NewEncoder(w).Encode(q)
		})
	}
	review("/apis/authentication.k8s.io/v1/selfsubjectreviews", func(r *http.Request, _ map[string]any) (any, error) {
		name, groups := asked(r)
		return map[string]any{"userInfo": map[string]any{"username": name, "groups": groups}}, nil
	})
	review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(r *http.Request, q map[string]any) (any, error) {
		return mayReview(r, q), nil
	})
	review("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", func(r *http.Request, q map[string]any) (any, error) {
		return map[string]any{
			"resourceRules": []any{
				map[string]any{"verbs": []string{"get", "list"}, "apiGroups": []string{"fleet.drover.dev"}, "resources": []string{"workloads", "workloads/status"}},
				map[string]any{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": []string{"site"}},
			},
			"nonResourceRules": []any{map[string]any{"verbs": []string{"get"}, "nonResourceURLs": []string{"/version"}}},
			"incomplete":       false,
		}, nil
	})
	review("/api/v1/namespaces/{ns}/serviceaccounts/{name}/token", func(r *http.Request, q map[string]any) (any, error) {
		spec, _ := q["spec"].(map[string]any)
		seconds, ok := spec["expirationSeconds"].(float64)
		if !ok {
			seconds = 3600
		}
		if name := r.PathValue("name"); name != "ci" {
			return nil, fault.ObjectNotFound("serviceaccounts", name)
		}
		end := time.Now().Add(time.Duration(seconds) * time.Second)
		return map[string]any{"token": tokenOf(fmt.Sprintf("system:serviceaccount:%s:ci", r.PathValue("ns")), end), "expirationTimestamp": end.UTC().Format(time.RFC3339)}, nil
	})
	mux.HandleFunc("POST "+remote.PathUsers, h.certify)
	return mux
}

func mayReview(r *http.Request, q map[string]any) any {
	_, groups := asked(r)
	spec, _ := q["spec"].(map[string]any)
	res, _ := spec["resourceAttributes"].(map[string]any)
	path, _ := spec["nonResourceAttributes"].(map[string]any)
	allowed := groups[0] == "drover:admins" || path["path"] == "/version" || res["resource"] == "workloads" && res["group"] == "fleet.drover.dev" && (res["verb"] == "get" || res["verb"] == "list")
	if allowed {
		return map[string]any{"allowed": true}
	}
	return map[string]any{"allowed": false, "reason": fmt.Sprintf("no binding lets %v of %v", spec["resourceAttributes"], groups)}
}

// certify signs for a colleague, as the hub's operation does.
func (h *hub) certify(w http.ResponseWriter, r *http.Request) {
	var q remote.UserRequest
	must(h.t, json.NewDecoder(r.Body).Decode(&q))
	rq, err := x509.ParseCertificateRequest(q.Request)
	must(h.t, err)
	must(h.t, rq.CheckSignature())
	end := time.Now().Add(time.Duration(q.ExpirationSeconds) * time.Second)
	h.ca.next++
	cert := h.ca.sign(&x509.Certificate{
		SerialNumber: big.NewInt(h.ca.next + 1), Subject: pkix.Name{CommonName: q.User, Organization: q.Groups}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, rq.PublicKey.(*ecdsa.PublicKey))
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(remote.UserCertificate{
		User: q.User, Groups: q.Groups, Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), NotAfter: api.TimeOf(end), Servers: []string{h.server.URL},
	})
}
