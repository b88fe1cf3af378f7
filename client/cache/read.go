package cache

import (
	"maps"
	"slices"

	"github.com/drover-fleet/drover/api"
)

// Revision is the newest store revision that the cache is known to reflect.
func (i *Informer) Revision() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.content.revision
}

// Get returns an object; false when the cache has none.
func (i *Informer) Get(key Key) (api.Object, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	o, ok := i.content.objects[key]
	return o, ok
}

// List returns all objects by namespace and name.
func (i *Informer) List() []api.Object {
	i.mu.RLock()
	out := slices.Collect(maps.Values(i.content.objects))
	i.mu.RUnlock()
	return sorted(out)
}

// By returns the objects that the index has under value, by namespace and name. Asking for an index that nobody added is a
// defect of the caller.
func (i *Informer) By(name, value string) []api.Object {
	i.mu.RLock()
	x := i.content.indexes[name]
	if x == nil {
		i.mu.RUnlock()
		panic("cache: no index " + name + " of " + i.kind.Plural)
	}
	out := make([]api.Object, 0, len(x.keys[value]))
	for key := range x.keys[value] {
		out = append(out, i.content.objects[key])
	}
	i.mu.RUnlock()
	return sorted(out)
}

func sorted(out []api.Object) []api.Object {
	slices.SortFunc(out, func(a, b api.Object) int { return KeyOf(a).Compare(KeyOf(b)) })
	return out
}

// Get is [Informer.Get] for one type of object.
func Get[T api.Object](i *Informer, namespace, name string) (T, bool) {
	o, ok := i.Get(Key{namespace, name})
	if !ok {
		var none T
		return none, false
	}
	return o.(T), true
}

// List is [Informer.List] for one type of object.
func List[T api.Object](i *Informer) []T { return typed[T](i.List()) }

// By is [Informer.By] for one type of object.
func By[T api.Object](i *Informer, index, value string) []T { return typed[T](i.By(index, value)) }

func typed[T api.Object](in []api.Object) []T {
	out := make([]T, len(in))
	for n, o := range in {
		out[n] = o.(T)
	}
	return out
}
