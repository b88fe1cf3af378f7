package api

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api/fault"
)

func TestEveryFieldOfEveryKindSurvivesJSONAndYAML(t *testing.T) {
	for _, k := range Kinds() {
		want := filled(k)
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeJSON(k, b)
		if err != nil {
			t.Fatalf("%s: %v", k, err)
		}
		if diff := cmp.Diff(fmt.Sprintf("%#v", plainSecret(want)), fmt.Sprintf("%#v", plainSecret(got))); !reflect.DeepEqual(want, got) {
			t.Errorf("%s by JSON (-want +got):\n%s", k, diff)
		}
		y, err := EncodeYAML(want)
		if err != nil {
			t.Fatal(err)
		}
		root, err := parseYAML(yamlDocument{y, 1})
		if err != nil {
			t.Fatalf("%s: %v\n%s", k, err, y)
		}
		w := &walker{}
		if got := w.typed(root, k); len(w.errs) > 0 || !reflect.DeepEqual(want, got) {
			t.Errorf("%s by YAML: %v\n%s", k, w.errs, y)
		}
	}
}

// plainSecret shows a Secret as another type, whose values print.
func plainSecret(o Object) any {
	if s, ok := o.(*Secret); ok {
		type plain Secret
		return (*plain)(s)
	}
	return o
}

func TestCopiesShareNothing(t *testing.T) {
	for _, k := range Kinds() {
		o := filled(k)
		c := o.DeepCopyObject()
		if !reflect.DeepEqual(o, c) {
			t.Errorf("%s: the copy differs", k)
		}
		if p := shared(reflect.ValueOf(o).Elem(), reflect.ValueOf(c).Elem(), k.Kind); p != "" {
			t.Errorf("the copy shares %s", p)
		}
	}
}

// shared is the path of the first pointer, slice or map that both hold.
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		empty := a.Kind() == reflect.Pointer && a.Type().Elem().Size() == 0 // all of them have one address
		if !a.IsNil() && a.Pointer() == b.Pointer() && !empty && a.Type() != reflect.TypeFor[*time.Location]() {
			return path
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			return shared(a.Elem(), b.Elem(), path)
		}
	case reflect.Slice:
		for i := range a.Len() {
			if p := shared(a.Index(i), b.Index(i), path+index(i)); p != "" {
				return p
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if p := shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); p != "" {
				return p
			}
		}
	}
	return ""
}

func TestYAMLQuotesWhatOtherReadersTakeForSomethingElse(t *testing.T) {
	values := map[string]string{}
	for i, s := range []string{"no", "1.10", "080", "", "~", "null", "true", "12:30", "a\nb\n", " lead\nx\n", "trail \nx", "tab\tx", "x: y", "# x", "- x", "<<", "=", "é", "\x01", "\u2028", "*a", "&a", "!a", "%a", "@a", "'", "\"", "a\n", "\n", "---", "...", "a\n---\nb", "\r", "a\r\nb"} {
		values[fmt.Sprintf("k%02d", i)] = s
	}
	want := &ConfigMap{TypeMeta: TypeMeta{CoreV1, "ConfigMap"}, Metadata: ObjectMeta{Name: "a"}, Data: values}
	y, err := EncodeYAML(want)
	if err != nil {
		t.Fatal(err)
	}
	items, err := DecodeManifests("f.yaml", y)
	if err != nil {
		t.Fatalf("%v\n%s", err, y)
	}
	if diff := cmp.Diff(want, items[0].Object); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, y)
	}
	if !strings.Contains(string(y), `k00: "no"`) {
		t.Errorf("no is not in double quotes:\n%s", y)
	}
}

func TestBodiesAreReadStrictlyOrWithWarnings(t *testing.T) {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":null,"lables":{}},"data":{"a":"1","a":"2"},"xyz":1}`
	_, err := DecodeJSON(KindConfigMap, []byte(body))
	if !errors.Is(err, fault.BadRequest) {
		t.Fatalf("got %v, want BadRequest", err)
	}
	for _, part := range []string{"strict decoding error", "metadata.lables: unknown field; did you mean labels?", "data.a: is there twice", "xyz: unknown field"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	o, warnings, err := DecodeJSONWarn(nil, []byte(body))
	if err != nil || len(warnings) != 3 || o.(*ConfigMap).Data["a"] != "1" {
		t.Errorf("lenient: %+v, %q, %v; want the object, the first of the twins and 3 warnings", o, warnings, err)
	}
	for body, class := range map[string]fault.Class{
		`{"kind":"Secret","apiVersion":"v1"}`: fault.BadRequest, `[]`: fault.BadRequest, `{`: fault.BadRequest, ``: fault.BadRequest, `{"data":{"a":null}}`: fault.BadRequest,
		`{"data":{"a":1}}`: fault.BadRequest, `{"metadata":{"finalizers":[null]}}`: fault.BadRequest, strings.Repeat(" ", MaxObject+1): fault.TooLarge,
		strings.Repeat("[", 100): fault.BadRequest, `{"binaryData":{"a":"?"}}`: fault.BadRequest, `{"immutable":"true"}`: fault.BadRequest,
	} {
		if o, err := DecodeJSON(KindConfigMap, []byte(body)); !errors.Is(err, class) {
			t.Errorf("%s: got %v, %v; want %s", clip(body), o, err, class)
		}
	}
	if o, err := DecodeJSON(KindConfigMap, []byte(`{"metadata":null}`)); err != nil || o.Type().Kind != "ConfigMap" {
		t.Errorf("a body without kind: %v, %v; want the kind of the path", o, err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	s := &Secret{Metadata: ObjectMeta{Name: "s", Namespace: "n"}, Data: map[string][]byte{"k": []byte("canary")}, StringData: map[string]string{"l": "canary"}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "value", *s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "value", *s)
	wrapped := struct{ Object Object }{s}
	for _, out := range []string{log.String(), fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x", s, s, *s, s, *s), fmt.Sprintf("%+v", wrapped), InvalidError(s, []FieldError{{"data", "x"}}).Error()} {
		if strings.Contains(out, "canary") || strings.Contains(out, fmt.Sprintf("%x", "canary")) || strings.Contains(out, "Y2FuYXJ5") {
			t.Errorf("the value is printed: %s", out)
		}
	}
}
