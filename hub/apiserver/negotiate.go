package apiserver

import (
	"mime"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// form is the shape in which objects are answered.
type form struct {
	as      string // "", "Table", "PartialObjectMetadata"
	version string // of meta.k8s.io: v1 or v1beta1
}

func (f form) apiVersion() string { return "meta.k8s.io/" + f.version }

// negotiate takes the first form in the Accept header that this server has. Names of other groups' forms (the aggregated
// discovery's, for one) and of other encodings are passed over, so that clients fall back to what stands after them.
func negotiate(accept string) (form, error) {
	if strings.TrimSpace(accept) == "" {
		return form{}, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || !isJSON(media) {
			continue
		}
		as := strings.TrimSuffix(params["as"], "List")
		if as == "" {
			return form{}, nil
		}
		known := as == "Table" || as == "PartialObjectMetadata"
		if known && params["g"] == "meta.k8s.io" && (params["v"] == "v1" || params["v"] == "v1beta1") {
			return form{as: as, version: params["v"]}, nil
		}
	}
	return form{}, fault.NotAcceptable.Errorf("only application/json can be answered here, not %q", clip(accept))
}

func isJSON(media string) bool {
	return media == "application/json" || media == "*/*" || media == "application/*"
}
