package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// codec converts between objects and stored values. The stored form is the object's JSON without resourceVersion, with
// the values of Secrets sealed.
type codec struct{ sealer *Sealer }

// decode reads a stored value into an object of its own.
func (c codec) decode(ref api.Ref, kv *store.KV) (api.Object, error) {
	obj, err := decodeStored(ref, kv.Value)
	if err != nil {
		return nil, err
	}
	if s, ok := obj.(*api.Secret); ok {
		if err := c.open(ref, s); err != nil {
			return nil, err
		}
	}
	obj.Meta().ResourceVersion = kv.ModRevision.String()
	return obj, nil
}

// decodeStored is lenient about fields it does not know: a later build may have written them.
func decodeStored(ref api.Ref, value []byte) (api.Object, error) {
	obj := ref.Kind.New()
	if err := json.Unmarshal(value, obj); err != nil {
		return nil, fault.Internal.Errorf("stored %s cannot be read: %w", title(ref), err)
	}
	*obj.Type() = api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}
	return obj, nil
}

// plain is the object's JSON as compared for change: everything but the resourceVersion. It may hold secrets.
func plain(obj api.Object) ([]byte, error) {
	return marshalWith(obj, func(m *api.ObjectMeta) { m.ResourceVersion = "" })
}

// marshalWith writes the object with other metadata than it has. It may be shared with readers, so it is not touched, not even for a
// moment.
func marshalWith(obj api.Object, change func(*api.ObjectMeta)) ([]byte, error) {
	v := reflect.New(reflect.TypeOf(obj).Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	shallow := v.Interface().(api.Object)
	change(shallow.Meta())
	b, err := json.Marshal(shallow)
	if err != nil {
		return nil, fault.BadRequest.Errorf("object cannot be written as JSON: %w", err)
	}
	return b, nil
}

// encode is the stored form. base is what stands: its unknown fields and the sealed form of unchanged values are kept. by is the id of the key
// that seals new ones.
func (c codec) encode(ref api.Ref, obj api.Object, base *store.KV, old api.Object, by string) ([]byte, error) {
	var baseObj api.Object
	if base != nil {
		var err error
		if baseObj, err = decodeStored(ref, base.Value); err != nil {
			return nil, err
		}
	}
	if s, ok := obj.(*api.Secret); ok {
		oldSecret, _ := old.(*api.Secret)
		sealed, _ := baseObj.(*api.Secret)
		var err error
		if obj, err = c.seal(ref, s, oldSecret, sealed, by); err != nil {
			return nil, err
		}
	}
	b, err := plain(obj)
	if err != nil {
		return nil, err
	}
	if baseObj != nil {
		if b, err = keepUnknown(b, baseObj, base.Value); err != nil {
			return nil, err
		}
	}
	if len(b) > store.MaxValueBytes {
		return nil, fault.SizeLimit(title(ref)+", as stored,", int64(len(b)), store.MaxValueBytes)
	}
	return b, nil
}

// sealContext binds a sealed value to its place: it cannot be moved to another Secret or another key of it.
func sealContext(ref api.Ref, dataKey string) string { return keyOf(ref) + "\x00" + dataKey }

func (c codec) open(ref api.Ref, s *api.Secret) error {
	for k, v := range s.Data {
		p, err := c.sealer.Open(v, sealContext(ref, k))
		if err != nil {
			return fault.Internal.Errorf("%s, key %q: %w", title(ref), k, err)
		}
		s.Data[k] = p
	}
	return nil
}

// seal returns a copy with sealed values; sealed is the stored form of old, or both are nil.
func (c codec) seal(ref api.Ref, s, old, sealed *api.Secret, by string) (*api.Secret, error) {
	out := api.Copy(s)
	for k, v := range s.Data {
		if old != nil && sealed != nil {
			if was, ok := old.Data[k]; ok && bytes.Equal(was, v) {
				out.Data[k] = sealed.Data[k]
				continue
			}
		}
		b, err := c.sealer.SealBy(by, v, sealContext(ref, k))
		if err != nil {
			return nil, fault.Internal.Wrap(err)
		}
		out.Data[k] = b
	}
	return out, nil
}

// keepUnknown carries the fields of raw that known, its reading by this build, has lost over into b.
func keepUnknown(b []byte, known api.Object, raw []byte) ([]byte, error) {
	again, err := plain(known)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(again, raw) {
		return b, nil // written by a build that knows the same fields
	}
	var next, was, all map[string]any
	for _, p := range []struct {
		from []byte
		into *map[string]any
	}{{b, &next}, {again, &was}, {raw, &all}} {
		if *p.into, err = decodeMap(p.from); err != nil {
			return nil, fault.Internal.Errorf("merge unknown fields: %w", err)
		}
	}
	graft(next, was, all)
	return json.Marshal(next)
}

// graft adds to next what all has and known lacks, map by map. Lists are one value and belong to who writes them.
func graft(next, known, all map[string]any) {
	for k, v := range all {
		kv, isKnown := known[k]
		if !isKnown {
			if _, set := next[k]; !set && !isEmpty(v) {
				next[k] = v
			}
			continue
		}
		sub, ok1 := v.(map[string]any)
		knownSub, ok2 := kv.(map[string]any)
		nextSub, ok3 := next[k].(map[string]any)
		if ok1 && ok2 && ok3 {
			graft(nextSub, knownSub, sub)
		}
	}
}

// isEmpty holds for what this build leaves out when it writes.
func isEmpty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case string:
		return t == ""
	case bool:
		return !t
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	case int64:
		return t == 0
	case float64:
		return t == 0
	}
	return false
}

// decodeMap reads JSON with integers as int64, so that none loses digits.
func decodeMap(b []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	for k, v := range m {
		m[k] = plainNumbers(v)
	}
	return m, nil
}

func plainNumbers(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			t[k] = plainNumbers(e)
		}
	case []any:
		for i, e := range t {
			t[i] = plainNumbers(e)
		}
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		if f, err := t.Float64(); err == nil {
			return f
		}
		return t.String()
	}
	return v
}

// asMap is the object as JSON's maps and lists, for diffs and field ownership: without who owns what, which concerns neither and is often
// the larger part.
func asMap(obj api.Object) (map[string]any, error) {
	if obj == nil {
		return map[string]any{}, nil
	}
	b, err := marshalWith(obj, func(m *api.ObjectMeta) { m.ResourceVersion, m.ManagedFields = "", nil })
	if err != nil {
		return nil, err
	}
	return decodeMap(b)
}

// normalize brings an object that came from outside into the one form in which it is kept.
func normalize(obj api.Object) {
	switch o := obj.(type) {
	case *api.Secret:
		if len(o.StringData) > 0 {
			data := map[string][]byte{}
			maps.Copy(data, o.Data)
			for k, v := range o.StringData {
				data[k] = []byte(v)
			}
			o.Data, o.StringData = data, nil
		}
		// kubectl's client-side apply keeps a copy of the values here, in clear.
		delete(o.Metadata.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	case *api.Device:
		o.Status.LastContact = api.Time{} // computed when read
	}
}

// field is a top-level part of an object, Spec or Status; the zero Value where the kind has none.
func field(obj api.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// setStatus makes the status of dst a copy of src's; with src nil it clears it.
func setStatus(dst, src api.Object) {
	to := field(dst, "Status")
	if !to.IsValid() {
		panic(fmt.Sprintf("registry: %T has no status", dst))
	}
	if src == nil {
		to.SetZero()
		return
	}
	to.Set(field(src.DeepCopyObject(), "Status"))
}

// specChanged compares what metadata.generation counts.
func specChanged(a, b api.Object) bool {
	return !sameJSON(field(a, "Spec").Interface(), field(b, "Spec").Interface())
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
