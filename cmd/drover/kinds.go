package main

import (
	"strings"

	"github.com/drover-fleet/drover/api"
)

// kindNamed finds a kind by plural, singular, short name or kind, in any case; "workloads.fleet.drover.dev" works too.
func kindNamed(name string) (*api.Kind, error) {
	want := strings.ToLower(name)
	want, _, _ = strings.Cut(want, ".")
	for _, k := range api.Kinds() {
		if want == k.Plural || want == k.Singular || want == strings.ToLower(k.Kind) || contains(k.ShortNames, want) {
			return k, nil
		}
	}
	var all []string
	for _, k := range api.Kinds() {
		all = append(all, k.Plural)
	}
	return nil, usagef("there is no kind %q; the kinds are %s", name, strings.Join(all, ", "))
}

// refs reads "KIND NAME...", "KIND/NAME..." or "KIND" from the arguments. With no name, refs is nil and kind tells what was
// asked for.
func refs(args []string, namespace string) (kind *api.Kind, out []api.Ref, err error) {
	if len(args) == 0 {
		return nil, nil, usagef("name a kind, or KIND/NAME")
	}
	if strings.Contains(args[0], "/") {
		for _, a := range args {
			k, n, ok := strings.Cut(a, "/")
			if !ok || n == "" {
				return nil, nil, usagef("%q is not KIND/NAME", a)
			}
			if kind, err = kindNamed(k); err != nil {
				return nil, nil, err
			}
			out = append(out, ref(kind, namespace, n))
		}
		return kind, out, nil
	}
	if kind, err = kindNamed(args[0]); err != nil {
		return nil, nil, err
	}
	for _, n := range args[1:] {
		if n == "" || strings.Contains(n, "/") {
			return nil, nil, usagef("%q is not a name", n)
		}
		out = append(out, ref(kind, namespace, n))
	}
	return kind, out, nil
}

func ref(k *api.Kind, namespace, name string) api.Ref {
	if !k.Namespaced {
		namespace = ""
	}
	return api.Ref{Kind: k, Namespace: namespace, Name: name}
}

// refOf is how an object is named in output: singular/name.
func refOf(o api.Object) string {
	singular := strings.ToLower(o.Type().Kind)
	return singular + "/" + o.Meta().Name
}
