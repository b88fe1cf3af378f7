package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// openAPI holds the OpenAPI documents, made at the first request from the Go types of the kinds, with what the source says of each
// field. They are what kubectl explain prints, what kubectl before 1.25 validates by, and how clients learn what the hub can do.
type openAPI struct {
	once sync.Once
	v3   map[string]openAPIDoc // by group and version's path: api/v1
	root []byte                // lists them with their hashes
	v2   openAPIDoc
	v2pb openAPIDoc // kubectl before 1.24 reads nothing else
	err  error
}

type openAPIDoc struct {
	body []byte
	hash string // of the body, in hexadecimal
}

func newOpenAPIDoc(body []byte) openAPIDoc {
	sum := sha256.Sum256(body)
	return openAPIDoc{body: body, hash: strings.ToUpper(hex.EncodeToString(sum[:16]))}
}

func (d openAPIDoc) etag() string { return `"` + d.hash + `"` }

// openAPIPaths are the groups and versions with a document of their own.
func openAPIPaths() map[string]string {
	return map[string]string{"api/v1": api.CoreV1, "apis/" + api.FleetV1: api.FleetV1, "apis/" + api.RBACV1: api.RBACV1}
}

func (o *openAPI) load() error {
	o.once.Do(func() { o.err = o.make() })
	return o.err
}

func (o *openAPI) make() error {
	docs, err := readFieldDocs()
	if err != nil {
		return err
	}
	o.v3 = map[string]openAPIDoc{}
	listed := map[string]any{}
	for path, apiVersion := range openAPIPaths() {
		body, err := json.Marshal(openAPIv3Of(docs, "/"+path, apiVersion))
		if err != nil {
			return err
		}
		doc := newOpenAPIDoc(body)
		o.v3[path] = doc
		listed[path] = map[string]string{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + doc.hash}
	}
	if o.root, err = json.Marshal(map[string]any{"paths": listed}); err != nil {
		return err
	}
	v2 := openAPIv2Of(docs)
	body, err := json.Marshal(v2)
	if err != nil {
		return err
	}
	pb, err := v2.proto()
	if err != nil {
		return err
	}
	o.v2, o.v2pb = newOpenAPIDoc(body), newOpenAPIDoc(pb)
	return nil
}

// openAPIv3 answers with the list of documents, or one of them. A document asked for by its hash never changes, so it may be kept
// for ever; by another hash the client is led to the present one, as in Kubernetes.
func (x *exchange) openAPIv3() error {
	if err := x.s.openAPI.load(); err != nil {
		return err
	}
	if err := wantsJSON(x.r.Header.Get("Accept")); err != nil {
		return err
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(x.route.path, "/openapi/v3"), "/")
	if rest == "" {
		return x.sendDocument(newOpenAPIDoc(x.s.openAPI.root), "application/json")
	}
	doc := x.s.openAPI.v3[rest]
	switch hash := x.r.URL.Query().Get("hash"); hash {
	case "":
	case doc.hash:
		x.w.cacheFor = "public, immutable, max-age=31536000"
	default:
		x.w.Header().Set("Location", x.route.path+"?hash="+doc.hash)
		x.w.start(http.StatusMovedPermanently, "application/json")
		return nil
	}
	return x.sendDocument(doc, "application/json")
}

// protoV2 is the media type of the second version's binary form: clients ask by a name with "@v1.0", which is no media type; the answer's
// name has ".v1.0", as from Kubernetes.
const (
	protoV2       = "application/com.github.proto-openapi.spec.v2"
	protoV2Answer = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

func (x *exchange) openAPIv2() error {
	if err := x.s.openAPI.load(); err != nil {
		return err
	}
	accept := x.r.Header.Get("Accept")
	if strings.Contains(accept, protoV2) {
		return x.sendDocument(x.s.openAPI.v2pb, protoV2Answer)
	}
	if err := wantsJSON(accept); err != nil {
		return err
	}
	return x.sendDocument(x.s.openAPI.v2, "application/json")
}

// wantsJSON refuses a client that takes no JSON in plain form.
func wantsJSON(accept string) error {
	if strings.TrimSpace(accept) == "" {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		if media, _, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil && isJSON(media) {
			return nil
		}
	}
	return fault.NotAcceptable.Errorf("only application/json can be answered here, not %q", clip(accept))
}

// sendDocument answers with a document under its ETag, or with 304 when the client has it.
func (x *exchange) sendDocument(d openAPIDoc, contentType string) error {
	x.w.Header().Set("ETag", d.etag())
	x.w.Header().Add("Vary", "Accept")
	if hasETag(x.r.Header.Get("If-None-Match"), d.etag()) {
		x.w.start(http.StatusNotModified, contentType)
		return nil
	}
	return x.w.bytes(http.StatusOK, contentType, d.body)
}

// hasETag reads If-None-Match, which compares weakly: W/"a" and "a" are one.
func hasETag(header, etag string) bool {
	return slices.ContainsFunc(strings.Split(header, ","), func(one string) bool {
		one = strings.TrimSpace(one)
		return one == "*" || strings.TrimPrefix(one, "W/") == etag
	})
}
