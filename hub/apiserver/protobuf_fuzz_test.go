package apiserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/drover-fleet/drover/api/fault"
)

// bytesField is a field of a message that is written with its length, numberField one that is not.
func bytesField(n protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), slices.Concat(parts...))
}

func numberField(n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
}

// FuzzProtobuf: a protobuf body is refused with a reason that its sender can read, or is read into JSON of the kind and version that it names,
// not much larger than itself.
func FuzzProtobuf(f *testing.F) {
	meta := func(name string) []byte {
		return bytesField(1, bytesField(1, []byte(name)), bytesField(11, bytesField(1, []byte("k")), bytesField(2, []byte("v"))))
	}
	for kind, body := range map[string][]byte{
		"ConfigMap":     bytesField(2, meta("a"), bytesField(2, bytesField(1, []byte("k")), bytesField(2, []byte("v"))), bytesField(3, bytesField(1, []byte("b")), bytesField(2, []byte{0, 255}))),
		"Secret":        bytesField(2, meta("a"), bytesField(2, bytesField(1, []byte("k")), bytesField(2, []byte("v"))), bytesField(3, []byte("Opaque"))),
		"Role":          bytesField(2, meta("a"), bytesField(2, bytesField(1, []byte("get")), bytesField(3, []byte("workloads")))),
		"DeleteOptions": bytesField(2, numberField(1, 5), bytesField(2, bytesField(1, []byte("uid")))),
		"TokenRequest":  bytesField(2, meta("a"), bytesField(2, bytesField(1, []byte("vault")))),
		"Event":         bytesField(2, meta("a"), bytesField(6, numberField(1, 1<<34))),
		"Namespace":     bytesField(2, bytesField(1, bytesField(17, bytesField(7, bytesField(1, []byte(`{"f:a":{}}`)))))),
	} {
		f.Add(append([]byte(protoMagic), append(bytesField(1, bytesField(1, []byte("v1")), bytesField(2, []byte(kind))), body...)...))
	}
	f.Add([]byte(protoMagic))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := protobufToJSON(body)
		if err != nil {
			if !fault.Is(err, fault.BadRequest, fault.UnsupportedMedia) {
				t.Fatalf("got %v of class %v, want the sender's fault", err, fault.ClassOf(err))
			}
			return
		}
		var head struct{ APIVersion, Kind string }
		if err := json.Unmarshal(out, &head); err != nil {
			t.Fatalf("got %q: %v", out, err)
		}
		if !strings.Contains(string(body), head.Kind) || protoShape(head.Kind) == "" {
			t.Fatalf("got kind %q, which the body does not name", head.Kind)
		}
		if most := 64*len(body) + 1024; len(out) > most {
			t.Fatalf("got %d bytes of JSON of %d, want at most %d", len(out), len(body), most)
		}
	})
}
