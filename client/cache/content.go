package cache

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// Key is an object's place among those of its kind.
type Key struct{ Namespace, Name string }

// KeyOf is the key of an object.
func KeyOf(o api.Object) Key { return Key{o.Meta().Namespace, o.Meta().Name} }

// String is namespace/name, or the name alone.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders by namespace, then name.
func (k Key) Compare(l Key) int {
	if c := strings.Compare(k.Namespace, l.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, l.Name)
}

// number is the revision's value; what is not a number counts as none.
func number(revision string) uint64 {
	n, _ := strconv.ParseUint(revision, 10, 64)
	return n
}

// Newer reports whether revision a is higher than b.
func Newer(a, b string) bool { return number(a) > number(b) }

// index finds keys by a value that is computed from the object.
type index struct {
	by   func(api.Object) []string
	keys map[string]map[Key]struct{}
}

// content is what an informer holds. An object in objects stands in each index under each of its values, and nowhere else.
type content struct {
	objects  map[Key]api.Object
	indexes  map[string]*index
	revision string // the newest that is reflected here
}

func newContent() content {
	return content{objects: map[Key]api.Object{}, indexes: map[string]*index{}}
}

func (c *content) addIndex(name string, by func(api.Object) []string) {
	if c.indexes[name] == nil {
		c.indexes[name] = &index{by: by, keys: map[string]map[Key]struct{}{}}
	}
}

func (c *content) reached(revision string) {
	if Newer(revision, c.revision) {
		c.revision = revision
	}
}

func (c *content) apply(ch Change) {
	key := KeyOf(ch.Object())
	if old := c.objects[key]; old != nil {
		for _, x := range c.indexes {
			x.remove(key, old)
		}
	}
	if ch.New == nil {
		delete(c.objects, key)
	} else {
		c.objects[key] = ch.New
		for _, x := range c.indexes {
			x.add(key, ch.New)
		}
	}
	c.reached(ch.Revision)
}

func (x *index) add(key Key, o api.Object) {
	for _, v := range x.by(o) {
		if x.keys[v] == nil {
			x.keys[v] = map[Key]struct{}{}
		}
		x.keys[v][key] = struct{}{}
	}
}

func (x *index) remove(key Key, o api.Object) {
	for _, v := range x.by(o) {
		delete(x.keys[v], key)
		if len(x.keys[v]) == 0 {
			delete(x.keys, v)
		}
	}
}

// difference is what leads from the content to fresh, by revision. What is gone carries the revision of the list, since its own
// is not known, unless another object has taken its name: then that one's.
func (c *content) difference(fresh map[Key]api.Object, revision string) []Change {
	var out []Change
	for key, now := range fresh {
		old, at := c.objects[key], now.Meta().ResourceVersion
		switch {
		case old == nil:
			out = append(out, Change{New: now, Revision: at})
		case old.Meta().UID != now.Meta().UID:
			out = append(out, Change{Old: old, Revision: at}, Change{New: now, Revision: at})
		case old.Meta().ResourceVersion != at:
			out = append(out, Change{Old: old, New: now, Revision: at})
		}
	}
	for key, old := range c.objects {
		if _, ok := fresh[key]; !ok {
			out = append(out, Change{Old: old, Revision: revision})
		}
	}
	// Stable, so that a deletion stays before what took its name.
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(number(a.Revision), number(b.Revision)), KeyOf(a.Object()).Compare(KeyOf(b.Object())))
	})
	return out
}
