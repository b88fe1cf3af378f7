package gateway

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// inputKinds are the kinds that a bundle is made of, in the order in which they are fed.
func inputKinds() []*api.Kind {
	return []*api.Kind{
		api.KindDevicePool, api.KindConfigMap, api.KindSecret, api.KindWorkloadRevision, api.KindAssignment, api.KindTombstone, api.KindDevice,
	}
}

// name is a namespaced name; ns is empty for cluster-scoped kinds.
type name struct{ ns, name string }

func nameOf(o api.Object) name { return name{o.Meta().Namespace, o.Meta().Name} }

// progress is how far the view of one kind has come.
type progress struct {
	// at is a store revision that the view of the kind has reached: a list's, an event's or a bookmark's.
	at uint64
	// newest is the highest revision of a change of the kind that went into the view. Always at most at. Unlike at, every other
	// member's view of the kind reaches newest by its own events.
	newest uint64
	listed bool
}

// view is a member's copy of everything that bundles are made of, with the indexes that tell whom a change concerns. Each kind
// is a prefix of the store's history; the prefixes of two kinds may differ in length. Not safe for concurrent use.
type view struct {
	objects  map[*api.Kind]map[name]api.Object
	progress map[*api.Kind]*progress

	byDevice    map[string]map[name]*api.Assignment
	byRevision  map[name]map[name]*api.Assignment // by the WorkloadRevision that the copy should run
	tombstones  map[string]map[name]*api.Tombstone
	usersOf     map[ref]map[name]bool // WorkloadRevisions by the ConfigMap or Secret that they use
	pools       api.Pools
	specChanged map[name]uint64 // of each Assignment: revision at which this view first saw its present generation
}

type ref struct {
	kind *api.Kind
	name name
}

func newView() *view {
	v := &view{
		objects:     map[*api.Kind]map[name]api.Object{},
		progress:    map[*api.Kind]*progress{},
		byDevice:    map[string]map[name]*api.Assignment{},
		byRevision:  map[name]map[name]*api.Assignment{},
		tombstones:  map[string]map[name]*api.Tombstone{},
		usersOf:     map[ref]map[name]bool{},
		specChanged: map[name]uint64{},
	}
	for _, k := range inputKinds() {
		v.objects[k] = map[name]api.Object{}
		v.progress[k] = &progress{}
	}
	return v
}

// complete reports whether every kind was listed once.
func (v *view) complete() bool {
	for _, p := range v.progress {
		if !p.listed {
			return false
		}
	}
	return true
}

// replace takes a whole list of a kind and returns the devices that it concerns.
func (v *view) replace(k *api.Kind, items []api.Object, resourceVersion string) map[string]bool {
	concerned := map[string]bool{}
	keep := make(map[name]bool, len(items))
	for _, o := range items {
		keep[nameOf(o)] = true
		v.put(k, o, concerned)
	}
	for n, o := range v.objects[k] {
		if !keep[n] {
			v.remove(k, o, concerned)
		}
	}
	p := v.progress[k]
	p.listed = true
	p.at = max(p.at, revisionOf(resourceVersion))
	return concerned
}

// apply takes one event of a kind and returns the devices that it concerns.
func (v *view) apply(k *api.Kind, e client.Event) map[string]bool {
	concerned := map[string]bool{}
	p := v.progress[k]
	switch e.Type {
	case client.Added, client.Modified:
		v.put(k, e.Object, concerned)
	case client.Deleted:
		if old, ok := v.objects[k][nameOf(e.Object)]; ok {
			v.remove(k, old, concerned)
		}
		p.newest = max(p.newest, revisionOf(e.Object.Meta().ResourceVersion))
	}
	p.at = max(p.at, revisionOf(e.Object.Meta().ResourceVersion))
	return concerned
}

func (v *view) put(k *api.Kind, o api.Object, concerned map[string]bool) {
	n := nameOf(o)
	p := v.progress[k]
	rev := revisionOf(o.Meta().ResourceVersion)
	p.newest, p.at = max(p.newest, rev), max(p.at, rev)
	old, existed := v.objects[k][n]
	if existed {
		if old.Meta().ResourceVersion == o.Meta().ResourceVersion {
			return
		}
		v.unindex(k, old)
	}
	if k == api.KindDevicePool && existed && old.Meta().Generation == o.Meta().Generation && old.Meta().UID == o.Meta().UID {
		v.objects[k][n] = o // only counted anew
		return
	}
	v.objects[k][n] = o
	v.index(k, o, old)
	v.concern(k, o, concerned)
	if existed {
		v.concern(k, old, concerned)
	}
}

func (v *view) remove(k *api.Kind, o api.Object, concerned map[string]bool) {
	v.concern(k, o, concerned)
	v.unindex(k, o)
	delete(v.objects[k], nameOf(o))
	if k == api.KindDevicePool {
		v.compilePools()
	}
	if k == api.KindAssignment {
		delete(v.specChanged, nameOf(o))
	}
}

func (v *view) index(k *api.Kind, o, old api.Object) {
	n := nameOf(o)
	switch t := o.(type) {
	case *api.Assignment:
		if t.Spec.Device != "" {
			insert(v.byDevice, t.Spec.Device, n, t)
		}
		insert(v.byRevision, name{n.ns, t.Spec.Revision}, n, t)
		was, _ := old.(*api.Assignment)
		if was == nil || was.Metadata.UID != t.Metadata.UID || was.Metadata.Generation != t.Metadata.Generation {
			v.specChanged[n] = revisionOf(t.Metadata.ResourceVersion)
		}
	case *api.WorkloadRevision:
		for _, r := range refsOf(t) {
			insert(v.usersOf, r, n, true)
		}
	case *api.Tombstone:
		insert(v.tombstones, t.Spec.Device, n, t)
	case *api.DevicePool:
		v.compilePools()
	}
}

func (v *view) compilePools() {
	list := make([]*api.DevicePool, 0, len(v.objects[api.KindDevicePool]))
	for _, o := range v.objects[api.KindDevicePool] {
		list = append(list, o.(*api.DevicePool))
	}
	v.pools = api.NewPools(list)
}

func (v *view) unindex(k *api.Kind, o api.Object) {
	n := nameOf(o)
	switch t := o.(type) {
	case *api.Assignment:
		drop(v.byDevice, t.Spec.Device, n)
		drop(v.byRevision, name{n.ns, t.Spec.Revision}, n)
	case *api.WorkloadRevision:
		for _, r := range refsOf(t) {
			drop(v.usersOf, r, n)
		}
	case *api.Tombstone:
		drop(v.tombstones, t.Spec.Device, n)
	}
}

// concern adds the devices whose bundle the object goes into.
func (v *view) concern(k *api.Kind, o api.Object, devices map[string]bool) {
	n := nameOf(o)
	switch t := o.(type) {
	case *api.Device:
		devices[n.name] = true
	case *api.Assignment:
		if t.Spec.Device != "" {
			devices[t.Spec.Device] = true
		}
	case *api.Tombstone:
		devices[t.Spec.Device] = true
	case *api.DevicePool:
		// Whether or not it counts for them: another one may have until now.
		only := api.NewPools([]*api.DevicePool{t})
		for dn, d := range v.objects[api.KindDevice] {
			if only.Of(d.Meta().Labels) != nil {
				devices[dn.name] = true
			}
		}
	case *api.WorkloadRevision:
		v.concernUsers(n, devices)
	case *api.ConfigMap, *api.Secret:
		for rev := range v.usersOf[ref{k, n}] {
			v.concernUsers(rev, devices)
		}
	}
}

func (v *view) concernUsers(revision name, devices map[string]bool) {
	for _, a := range v.byRevision[revision] {
		if a.Spec.Device != "" {
			devices[a.Spec.Device] = true
		}
	}
}

func (v *view) device(n string) *api.Device {
	d, _ := v.objects[api.KindDevice][name{"", n}].(*api.Device)
	return d
}

// inputs gathers what the device's bundle is made of.
func (v *view) inputs(device string) Inputs {
	in := Inputs{
		Device:      v.device(device),
		Assignments: slices.Collect(maps.Values(v.byDevice[device])),
		Tombstones:  slices.Collect(maps.Values(v.tombstones[device])),
		Revisions:   map[string]*api.WorkloadRevision{},
		ConfigMaps:  map[string]*api.ConfigMap{},
		Secrets:     map[string]*api.Secret{},
		Changed:     map[string]uint64{},
	}
	if in.Device != nil {
		in.Pool = v.pools.Of(in.Device.Metadata.Labels)
	}
	for _, a := range in.Assignments {
		in.Changed[a.Metadata.UID] = v.specChanged[nameOf(a)]
		rn := name{a.Metadata.Namespace, a.Spec.Revision}
		r, ok := v.objects[api.KindWorkloadRevision][rn].(*api.WorkloadRevision)
		if !ok {
			continue
		}
		in.Revisions[rn.ns+"/"+rn.name] = r
		for _, u := range refsOf(r) {
			switch o := v.objects[u.kind][u.name].(type) {
			case *api.ConfigMap:
				in.ConfigMaps[u.name.ns+"/"+u.name.name] = o
			case *api.Secret:
				in.Secrets[u.name.ns+"/"+u.name.name] = o
			}
		}
	}
	slices.SortFunc(in.Assignments, func(a, b *api.Assignment) int { return cmp.Compare(a.Metadata.UID, b.Metadata.UID) })
	slices.SortFunc(in.Tombstones, func(a, b *api.Tombstone) int { return cmp.Compare(a.Spec.UID, b.Spec.UID) })
	return in
}

// refsOf lists the ConfigMaps and Secrets that a revision's template names.
func refsOf(r *api.WorkloadRevision) []ref {
	var out []ref
	for _, c := range r.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if k := e.ValueFrom.ConfigMapKeyRef; k != nil {
				out = append(out, ref{api.KindConfigMap, name{r.Metadata.Namespace, k.Name}})
			}
			if k := e.ValueFrom.SecretKeyRef; k != nil {
				out = append(out, ref{api.KindSecret, name{r.Metadata.Namespace, k.Name}})
			}
		}
	}
	return out
}

func insert[K, N comparable, V any](m map[K]map[N]V, k K, n N, v V) {
	if m[k] == nil {
		m[k] = map[N]V{}
	}
	m[k][n] = v
}

func drop[K, N comparable, V any](m map[K]map[N]V, k K, n N) {
	delete(m[k], n)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
