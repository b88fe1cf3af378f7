package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/drover-fleet/drover/api/fault"
)

// protobufMedia is Kubernetes' binary form of its own kinds. Clients made of client-go's typed part send it, kubectl create and auth can-i
// among them, and take JSON for an answer. A body is read into JSON by the tables below and then goes the way of every JSON body, so
// that one decoder judges both.
const protobufMedia = "application/vnd.kubernetes.protobuf"

// protoMagic begins every body; runtime.Unknown follows: typeMeta = 1 {apiVersion = 1, kind = 2}, raw = 2, contentEncoding = 3.
const protoMagic = "k8s\x00"

// jsonBody is the body as JSON, of a client that may send either form.
func (x *exchange) jsonBody() ([]byte, error) {
	media, err := x.contentType()
	if err != nil {
		return nil, err
	}
	body, err := x.readBody()
	if err != nil {
		return nil, err
	}
	switch media {
	case "application/json":
		return body, nil
	case protobufMedia:
		return protobufToJSON(body)
	}
	return nil, fault.UnsupportedMedia.Errorf("content type %q: send application/json", clip(media))
}

// protobufToJSON reads a body of one of Kubernetes' own kinds. What it does not know is an error, as an unknown field in JSON is.
func protobufToJSON(body []byte) ([]byte, error) {
	raw, ok := bytes.CutPrefix(body, []byte(protoMagic))
	if !ok {
		return nil, fault.BadRequest.Errorf("protobuf body: it does not begin with %q", protoMagic)
	}
	envelope, err := readProto("Unknown", raw)
	if err != nil {
		return nil, err
	}
	meta, _ := envelope["typeMeta"].(map[string]any)
	kind, _ := meta["kind"].(string)
	apiVersion, _ := meta["apiVersion"].(string)
	if envelope["contentEncoding"] != nil {
		return nil, fault.UnsupportedMedia.Errorf("protobuf body: content encoding inside the envelope is not supported: send application/json")
	}
	if protoShape(kind) == "" || !startsWithUpper(kind) {
		return nil, fault.UnsupportedMedia.Errorf("%s %q has no protobuf form here: send application/json", clip(apiVersion), clip(kind))
	}
	inner, _ := envelope["raw"].([]byte)
	obj, err := readProto(kind, inner)
	if err != nil {
		return nil, err
	}
	obj["apiVersion"], obj["kind"] = apiVersion, kind
	return json.Marshal(obj)
}

func startsWithUpper(s string) bool { return s != "" && s[0] >= 'A' && s[0] <= 'Z' }

// protoShape lists the fields of a message as "number name type", as in Kubernetes' generated.proto. Types are s string, b bool,
// y bytes, i integer of which 0 is nothing, n integer of which 0 counts, t time; [] before one repeats it, {} makes it the values of a
// map with string keys; else it is a message. Empty: no such message.
func protoShape(name string) string {
	switch name {
	case "Unknown":
		return "1 typeMeta TypeMeta,2 raw y,3 contentEncoding s,4 contentType s"
	case "TypeMeta":
		return "1 apiVersion s,2 kind s"
	case "ObjectMeta":
		return "1 name s,2 generateName s,3 namespace s,4 selfLink s,5 uid s,6 resourceVersion s,7 generation i,8 creationTimestamp t,9 deletionTimestamp t," +
			"10 deletionGracePeriodSeconds n,11 labels {}s,12 annotations {}s,13 ownerReferences []OwnerReference,14 finalizers []s,17 managedFields []ManagedFieldsEntry"
	case "OwnerReference":
		return "1 kind s,3 name s,4 uid s,5 apiVersion s,6 controller b,7 blockOwnerDeletion b"
	case "ManagedFieldsEntry":
		return "1 manager s,2 operation s,3 apiVersion s,4 time t,6 fieldsType s,7 fieldsV1 FieldsV1,8 subresource s"
	case "FieldsV1":
		return "1 Raw y"
	case "Time":
		return "1 seconds i,2 nanos i"
	case "LabelSelector":
		return "1 matchLabels {}s,2 matchExpressions []LabelSelectorRequirement"
	case "LabelSelectorRequirement":
		return "1 key s,2 operator s,3 values []s"
	case "DeleteOptions":
		return "1 gracePeriodSeconds n,2 preconditions Preconditions,3 orphanDependents b,4 propagationPolicy s,5 dryRun []s,6 ignoreStoreReadErrorWithClusterBreakingPotential b"
	case "Preconditions":
		return "1 uid s,2 resourceVersion s"
	}
	return protoCore(name) + protoRights(name)
}

func protoCore(name string) string {
	switch name {
	case "Namespace":
		return "1 metadata ObjectMeta,2 spec NamespaceSpec,3 status NamespaceStatus"
	case "NamespaceSpec":
		return "1 finalizers []s"
	case "NamespaceStatus":
		return "1 phase s"
	case "ConfigMap":
		return "1 metadata ObjectMeta,2 data {}s,3 binaryData {}y,4 immutable b"
	case "Secret":
		return "1 metadata ObjectMeta,2 data {}y,3 type s,4 stringData {}s,5 immutable b"
	case "ServiceAccount":
		return "1 metadata ObjectMeta,2 secrets []ObjectReference,3 imagePullSecrets []LocalObjectReference,4 automountServiceAccountToken b"
	case "LocalObjectReference":
		return "1 name s"
	case "ObjectReference":
		return "1 kind s,2 namespace s,3 name s,4 uid s,5 apiVersion s,6 resourceVersion s,7 fieldPath s"
	case "Event":
		return "1 metadata ObjectMeta,2 involvedObject ObjectReference,3 reason s,4 message s,5 source EventSource,6 firstTimestamp t,7 lastTimestamp t,8 count i," +
			"9 type s,10 eventTime t,11 series EventSeries,12 action s,13 related ObjectReference,14 reportingComponent s,15 reportingInstance s"
	case "EventSource":
		return "1 component s,2 host s"
	case "EventSeries":
		return "1 count i,2 lastObservedTime t"
	case "Scale":
		return "1 metadata ObjectMeta,2 spec ScaleSpec,3 status ScaleStatus"
	case "ScaleSpec":
		return "1 replicas i"
	case "ScaleStatus":
		return "1 replicas i,2 selector s"
	}
	return ""
}

func protoRights(name string) string {
	switch name {
	case "Role":
		return "1 metadata ObjectMeta,2 rules []PolicyRule"
	case "ClusterRole":
		return "1 metadata ObjectMeta,2 rules []PolicyRule,3 aggregationRule AggregationRule"
	case "AggregationRule":
		return "1 clusterRoleSelectors []LabelSelector"
	case "PolicyRule":
		return "1 verbs []s,2 apiGroups []s,3 resources []s,4 resourceNames []s,5 nonResourceURLs []s"
	case "RoleBinding", "ClusterRoleBinding":
		return "1 metadata ObjectMeta,2 subjects []Subject,3 roleRef RoleRef"
	case "Subject":
		return "1 kind s,2 apiGroup s,3 name s,4 namespace s"
	case "RoleRef":
		return "1 apiGroup s,2 kind s,3 name s"
	case "SelfSubjectAccessReview":
		return "1 metadata ObjectMeta,2 spec SelfSubjectAccessReviewSpec,3 status SubjectAccessReviewStatus"
	case "SelfSubjectAccessReviewSpec":
		return "1 resourceAttributes ResourceAttributes,2 nonResourceAttributes NonResourceAttributes"
	case "SubjectAccessReview", "LocalSubjectAccessReview":
		return "1 metadata ObjectMeta,2 spec SubjectAccessReviewSpec,3 status SubjectAccessReviewStatus"
	case "SubjectAccessReviewSpec":
		return "1 resourceAttributes ResourceAttributes,2 nonResourceAttributes NonResourceAttributes,3 user s,4 groups []s,5 extra {}ExtraValue,6 uid s"
	case "ExtraValue":
		return "1 items []s"
	case "SubjectAccessReviewStatus":
		return "1 allowed b,2 reason s,3 evaluationError s,4 denied b"
	case "ResourceAttributes":
		return "1 namespace s,2 verb s,3 group s,4 version s,5 resource s,6 subresource s,7 name s"
	case "NonResourceAttributes":
		return "1 path s,2 verb s"
	case "SelfSubjectRulesReview":
		return "1 metadata ObjectMeta,2 spec SelfSubjectRulesReviewSpec,3 status SubjectRulesReviewStatus"
	case "SelfSubjectRulesReviewSpec":
		return "1 namespace s"
	case "SubjectRulesReviewStatus":
		return "1 resourceRules []ResourceRule,2 nonResourceRules []NonResourceRule,3 incomplete b,4 evaluationError s"
	case "ResourceRule":
		return "1 verbs []s,2 apiGroups []s,3 resources []s,4 resourceNames []s"
	case "NonResourceRule":
		return "1 verbs []s,2 nonResourceURLs []s"
	case "SelfSubjectReview":
		return "1 metadata ObjectMeta,2 status SelfSubjectReviewStatus"
	case "SelfSubjectReviewStatus":
		return "1 userInfo UserInfo"
	case "UserInfo":
		return "1 username s,2 uid s,3 groups []s,4 extra {}ExtraValue"
	case "TokenRequest":
		return "1 metadata ObjectMeta,2 spec TokenRequestSpec,3 status TokenRequestStatus"
	case "TokenRequestSpec":
		return "1 audiences []s,3 boundObjectRef BoundObjectReference,4 expirationSeconds n"
	case "BoundObjectReference":
		return "1 kind s,2 apiVersion s,3 name s,4 uid s"
	case "TokenRequestStatus":
		return "1 token s,2 expirationTimestamp t"
	case "TokenReview":
		return "1 metadata ObjectMeta,2 spec TokenReviewSpec,3 status TokenReviewStatus"
	case "TokenReviewSpec":
		return "1 token s,2 audiences []s"
	case "TokenReviewStatus":
		return "1 authenticated b,2 user UserInfo,3 error s,4 audiences []s"
	}
	return ""
}

// protoField finds a field of a shape by its number.
func protoField(shape string, n protowire.Number) (name, typ string, ok bool) {
	want := strconv.Itoa(int(n))
	for f := range strings.SplitSeq(shape, ",") {
		if part := strings.Split(f, " "); part[0] == want {
			return part[1], part[2], true
		}
	}
	return "", "", false
}

// readProto reads a message into what its JSON would decode to. Depth is bounded: no shape leads back to itself.
func readProto(shape string, b []byte) (map[string]any, error) {
	fields := protoShape(shape)
	out := map[string]any{}
	for len(b) > 0 {
		n, wire, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil, badProto(shape, protowire.ParseError(size))
		}
		b = b[size:]
		name, typ, ok := protoField(fields, n)
		if !ok {
			return nil, fault.BadRequest.Errorf("protobuf body: field %d of %s is not known here: send application/json to see its name", n, shape)
		}
		size, err := readProtoField(out, name, typ, wire, b)
		if err != nil {
			return nil, badProto(shape+"."+name, err)
		}
		b = b[size:]
	}
	return out, nil
}

func badProto(where string, err error) error {
	if fault.ClassOf(err) == fault.BadRequest {
		return err
	}
	return fault.BadRequest.Errorf("protobuf body: %s: %w", where, err)
}

// readProtoField puts one field into out and returns its size.
func readProtoField(out map[string]any, name, typ string, wire protowire.Type, b []byte) (int, error) {
	if typ == "b" || typ == "i" || typ == "n" {
		v, size := protowire.ConsumeVarint(b)
		if wire != protowire.VarintType || size < 0 {
			return 0, errProtoType
		}
		switch {
		case typ == "b":
			out[name] = v != 0
		case v != 0 || typ == "n":
			out[name] = int64(v) //nolint:gosec // protobuf writes negative integers as their two's complement
		}
		return size, nil
	}
	data, size := protowire.ConsumeBytes(b)
	if wire != protowire.BytesType || size < 0 {
		return 0, errProtoType
	}
	if item, ok := strings.CutPrefix(typ, "[]"); ok {
		v, err := protoValue(item, data)
		list, _ := out[name].([]any)
		out[name] = append(list, v)
		return size, err
	}
	if item, ok := strings.CutPrefix(typ, "{}"); ok {
		return size, protoEntry(out, name, item, data)
	}
	v, err := protoValue(typ, data)
	if v != nil && v != "" {
		out[name] = v
	}
	return size, err
}

var errProtoType = errors.New("the field is cut off or of another type")

// protoEntry reads one pair of a map: key = 1, value = 2, either absent when empty.
func protoEntry(out map[string]any, name, typ string, data []byte) error {
	m, _ := out[name].(map[string]any)
	if m == nil {
		m = map[string]any{}
		out[name] = m
	}
	key := ""
	value, err := protoValue(typ, nil)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n, wire, size := protowire.ConsumeTag(data)
		if size < 0 || wire != protowire.BytesType {
			return errProtoType
		}
		part, more := protowire.ConsumeBytes(data[size:])
		if more < 0 {
			return errProtoType
		}
		data = data[size+more:]
		if n == 1 {
			key = string(part)
			continue
		}
		if value, err = protoValue(typ, part); err != nil {
			return err
		}
	}
	if !utf8.ValidString(key) {
		return errProtoText
	}
	m[key] = value
	return nil
}

var (
	errProtoText = errors.New("the text is not UTF-8")
	errProtoJSON = errors.New("the text is not JSON")
)

// protoValue reads a value of the types that are written with their length. An empty message is nil, as if it were absent.
func protoValue(typ string, data []byte) (any, error) {
	switch typ {
	case "s":
		if !utf8.Valid(data) {
			return nil, errProtoText
		}
		return string(data), nil
	case "y":
		return append([]byte{}, data...), nil // base64 in JSON
	case "t":
		return protoTime(data)
	case "FieldsV1":
		m, err := readProto(typ, data)
		raw, _ := m["Raw"].([]byte)
		if err != nil || len(raw) == 0 {
			return nil, err
		}
		if !json.Valid(raw) {
			return nil, errProtoJSON
		}
		return json.RawMessage(raw), nil
	case "ExtraValue":
		m, err := readProto(typ, data)
		return m["items"], err
	}
	m, err := readProto(typ, data)
	if err != nil || len(m) == 0 {
		return nil, err
	}
	return m, nil
}

// protoTime is the time as text; the zero time of Go, which clients write for none, is nil.
func protoTime(data []byte) (any, error) {
	m, err := readProto("Time", data)
	if err != nil {
		return nil, err
	}
	seconds, _ := m["seconds"].(int64)
	if at := time.Unix(seconds, 0).UTC(); seconds != 0 && at.Year() > 1 && at.Year() < 10_000 {
		return at.Format(time.RFC3339), nil
	}
	return nil, nil
}
