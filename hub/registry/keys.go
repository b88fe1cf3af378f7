package registry

import (
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// Keys are PLURAL/NAMESPACE/NAME or, for cluster-scoped kinds, PLURAL/NAME. Names hold no slash. Records of the hub's own
// start with "~" and are never objects.

// OwnPrefix is that of the hub's own records.
const OwnPrefix = "~"

func keyOf(ref api.Ref) string {
	if ref.Kind.Namespaced {
		return ref.Kind.Plural + "/" + ref.Namespace + "/" + ref.Name
	}
	return ref.Kind.Plural + "/" + ref.Name
}

// KeyOf is the key under which the object is stored.
func KeyOf(ref api.Ref) string { return keyOf(ref) }

// prefixOf covers the objects of a kind, of one namespace when it is given.
func prefixOf(k *api.Kind, namespace string) string {
	if k.Namespaced && namespace != "" {
		return k.Plural + "/" + namespace + "/"
	}
	return k.Plural + "/"
}

// refOf reads a key; ok is false for the hub's own records.
func refOf(key string) (ref api.Ref, ok bool) {
	plural, rest, found := strings.Cut(key, "/")
	if !found {
		return api.Ref{}, false
	}
	for _, k := range api.Kinds() {
		if k.Plural != plural {
			continue
		}
		if !k.Namespaced {
			return api.Ref{Kind: k, Name: rest}, rest != ""
		}
		ns, name, found := strings.Cut(rest, "/")
		return api.Ref{Kind: k, Namespace: ns, Name: name}, found && ns != "" && name != ""
	}
	return api.Ref{}, false
}

// checkRef refuses references that could not be, or would reach, another key than the one they name.
func checkRef(ref api.Ref) error {
	switch {
	case ref.Kind == nil:
		return fault.BadRequest.Errorf("no kind given")
	case ref.Name == "":
		return fault.BadRequest.Errorf("%s: metadata.name is empty: give the object a name", ref.Kind.Kind)
	case ref.Kind.Namespaced && ref.Namespace == "":
		return fault.BadRequest.Errorf("%s %q: metadata.namespace is empty: give the namespace, as %q", ref.Kind.Kind, ref.Name, api.DefaultNS)
	case !ref.Kind.Namespaced && ref.Namespace != "":
		return fault.BadRequest.Errorf("%s %q has no namespace: leave metadata.namespace out", ref.Kind.Kind, ref.Name)
	case strings.ContainsAny(ref.Name, "/\x00") || strings.ContainsAny(ref.Namespace, "/\x00"):
		return fault.BadRequest.Errorf("%s: a name may not contain a slash or a zero byte", ref.Kind.Kind)
	case len(keyOf(ref)) > store.MaxKeyBytes:
		return fault.BadRequest.Errorf("%s: name of %d bytes is too long", ref.Kind.Kind, len(ref.Name))
	}
	return nil
}

// refOfWrite names the object that somebody wants to write; what it says of its own kind must agree with its type.
func refOfWrite(obj api.Object) (api.Ref, error) {
	if obj == nil {
		return api.Ref{}, fault.BadRequest.Errorf("no object given")
	}
	ref, ok := api.RefOf(obj)
	if !ok {
		return api.Ref{}, fault.BadRequest.Errorf("%T is of no kind of the API", obj)
	}
	if t := *obj.Type(); t != (api.TypeMeta{}) && t != (api.TypeMeta{APIVersion: ref.Kind.APIVersion, Kind: ref.Kind.Kind}) {
		return api.Ref{}, fault.BadRequest.Errorf("object says that it is %s of %s but is %s of %s",
			t.Kind, t.APIVersion, ref.Kind.Kind, ref.Kind.APIVersion)
	}
	if !ref.Kind.Namespaced {
		ref.Namespace = obj.Meta().Namespace // refused by checkRef unless empty
	}
	return ref, nil
}

// title is how messages and the journal name an object: "Workload default/camera", "Device pi-07".
func title(ref api.Ref) string {
	if ref.Kind.Namespaced {
		return ref.Kind.Kind + " " + ref.Namespace + "/" + ref.Name
	}
	return ref.Kind.Kind + " " + ref.Name
}
