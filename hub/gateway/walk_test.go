package gateway

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// world is the store's history: what happened, in order, and what stands.
type world struct {
	rev     uint64
	log     []logged
	objects map[*api.Kind]map[name]api.Object
}

type logged struct {
	rev  uint64
	kind *api.Kind
	e    client.Event
}

func newWorld(epoch uint32) *world {
	w := &world{rev: uint64(epoch) << epochShift, objects: map[*api.Kind]map[name]api.Object{}}
	for _, k := range inputKinds() {
		w.objects[k] = map[name]api.Object{}
	}
	return w
}

func (w *world) put(k *api.Kind, o api.Object) {
	w.rev++
	o.Meta().ResourceVersion = strconv.FormatUint(w.rev, 10)
	typ := client.Added
	if _, ok := w.objects[k][nameOf(o)]; ok {
		typ = client.Modified
	}
	w.objects[k][nameOf(o)] = o
	w.log = append(w.log, logged{w.rev, k, client.Event{Type: typ, Object: o}})
}

func (w *world) remove(k *api.Kind, n name) {
	o := w.objects[k][n].DeepCopyObject()
	w.rev++
	o.Meta().ResourceVersion = strconv.FormatUint(w.rev, 10)
	delete(w.objects[k], n)
	w.log = append(w.log, logged{w.rev, k, client.Event{Type: client.Deleted, Object: o}})
}

func (w *world) device() *api.Device { return w.objects[api.KindDevice][name{"", "d"}].(*api.Device) }

// member applied the log up to a point; the view of each kind has come some way on its own.
type member struct {
	applied int
	cursor  map[*api.Kind]int
	view    *view
}

// restart lists each kind at the member's own applied state.
func (m *member) restart(w *world) {
	m.view, m.cursor = newView(), map[*api.Kind]int{}
	state := newWorld(0)
	at := uint64(0)
	for _, l := range w.log[:m.applied] {
		at = l.rev
		if l.e.Type == client.Deleted {
			delete(state.objects[l.kind], nameOf(l.e.Object))
		} else {
			state.objects[l.kind][nameOf(l.e.Object)] = l.e.Object
		}
	}
	for _, k := range inputKinds() {
		var items []api.Object
		for _, o := range state.objects[k] {
			items = append(items, o)
		}
		m.view.replace(k, items, strconv.FormatUint(at, 10))
		m.cursor[k] = m.applied
	}
}

// advance lets the view of one kind see up to n more entries of the log that the member applied.
func (m *member) advance(w *world, k *api.Kind, n int) {
	for ; n > 0 && m.cursor[k] < m.applied; m.cursor[k]++ {
		if l := w.log[m.cursor[k]]; l.kind == k {
			m.view.apply(k, l.e)
			n--
		}
	}
}

func (m *member) catchUp(w *world) {
	m.applied = len(w.log)
	for _, k := range inputKinds() {
		m.advance(w, k, len(w.log))
	}
}

// board obeys the device's rule: it takes what is not lower than what it holds.
type board struct {
	held     wire.Position
	hash     wire.Hash
	versions map[string]int // of each value it was told, by where the value stands; they only grow in the world
}

func walkKeyed(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

// poll is the gateway's poll as far as positions go. It returns what the member did.
func (b *board) poll(t *testing.T, w *world, m *member, id Identity) verdict {
	t.Helper()
	d := m.view.device("d")
	if d == nil {
		return wait
	}
	bundle, err := Build(m.view.inputs("d"), walkKeyed)
	if err != nil {
		t.Fatal(err)
	}
	v := judge(id, d, m.view.seen(), b.held, b.hash, bundle)
	switch v {
	case decide:
		if w.device().Metadata.ResourceVersion != d.Metadata.ResourceVersion {
			return wait // the precondition fails
		}
		before := recordOf(d).revision
		n := api.Copy(d)
		n.Status.Bundle = nextRecord(id, d, m.view.seen(), bundle)
		if rec := recordOf(n).revision; rec <= before || rec > w.rev {
			t.Fatalf("recorded revision %d; want above the one before (%d) and not above the store's (%d)", rec, before, w.rev)
		}
		w.put(api.KindDevice, n)
	case say:
		b.take(t, m, wire.Position{ClusterID: id.ClusterID, Epoch: id.Epoch, EpochID: id.EpochID, Revision: recordOf(d).revision}, bundle)
	}
	return v
}

// take checks what the device is told against all that it was told before.
func (b *board) take(t *testing.T, m *member, p wire.Position, bundle *Bundle) {
	t.Helper()
	if err := b.held.Accept(p); err != nil {
		t.Fatalf("told %+v while holding %+v: %v", p, b.held, err)
	}
	for _, e := range bundle.Entries {
		var a wire.Assignment
		if err := wire.Decode(bundle.Bodies[e.SpecHash.String()], wire.MaxBody, &a); err != nil {
			t.Fatal(err)
		}
		for _, env := range a.Containers[0].Env {
			key := a.UID + "/" + env.Name
			if env.Name == "CONFIG" {
				key = env.Name // one ConfigMap, whoever uses it
			}
			n, err := strconv.Atoi(env.Value)
			if err != nil {
				t.Fatal(err)
			}
			if n < b.versions[key] {
				t.Fatalf("told %s = %d after it was told %d: the device goes back", key, n, b.versions[key])
			}
			b.versions[key] = n
		}
	}
	b.held, b.hash = p, bundle.Hash
}

// walk makes random changes. version grows with each, so that older content is recognised anywhere.
type walk struct {
	r       *rand.Rand
	w       *world
	version int
	uids    int
}

func (k *walk) revision(n string) *api.WorkloadRevision {
	yes := true
	k.version++
	return &api.WorkloadRevision{
		Metadata: api.ObjectMeta{Name: n, Namespace: "default"},
		Spec: api.WorkloadRevisionSpec{
			Images: map[string]string{"i": "r.example/i@sha256:" + fmt.Sprintf("%064d", 1)},
			Template: api.Template{Spec: api.PodSpec{Containers: []api.Container{{Name: "c", Image: "i", Env: []api.EnvVar{
				{Name: "TEMPLATE", Value: strconv.Itoa(k.version)},
				{Name: "CONFIG", ValueFrom: &api.EnvVarSource{ConfigMapKeyRef: &api.KeySelector{Name: "cm", Key: "k", Optional: &yes}}},
				{Name: "LABEL", Value: "$(device.labels.v:-0)"},
			}}}}},
		},
	}
}

func (k *walk) change() {
	w := k.w
	an := name{"default", fmt.Sprintf("a%d", k.r.IntN(3))}
	old, _ := w.objects[api.KindAssignment][an].(*api.Assignment)
	switch k.r.IntN(9) {
	case 0, 1: // a new revision, and the assignment moves to it
		k.version++
		rn := fmt.Sprintf("r%d", k.version)
		w.put(api.KindWorkloadRevision, k.revision(rn))
		if old == nil {
			k.uids++
			w.put(api.KindAssignment, &api.Assignment{
				Metadata: api.ObjectMeta{Namespace: "default", Name: an.name, UID: fmt.Sprintf("u%d", k.uids), Generation: 1},
				Spec:     api.AssignmentSpec{Workload: "w", Revision: rn, Device: "d"},
			})
			return
		}
		n := api.Copy(old)
		n.Spec.Revision = rn
		n.Metadata.Generation++
		w.put(api.KindAssignment, n)
	case 2: // deleted or moved away: a tombstone in the same command
		if old == nil || old.Spec.Device != "d" {
			return
		}
		w.remove(api.KindAssignment, an)
		w.put(api.KindTombstone, &api.Tombstone{Metadata: api.ObjectMeta{Name: "d." + old.Metadata.UID},
			Spec: api.TombstoneSpec{Device: "d", UID: old.Metadata.UID, Namespace: "default", Name: an.name}})
	case 3: // the device has obeyed a tombstone
		for n := range w.objects[api.KindTombstone] {
			w.remove(api.KindTombstone, n)
			return
		}
	case 4, 5:
		k.version++
		w.put(api.KindConfigMap, &api.ConfigMap{Metadata: api.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": strconv.Itoa(k.version)}})
	case 6:
		if _, ok := w.objects[api.KindConfigMap][name{"default", "cm"}]; ok {
			w.remove(api.KindConfigMap, name{"default", "cm"})
		}
	case 7: // a label
		k.version++
		n := api.Copy(w.device())
		n.Metadata.Labels = map[string]string{"v": strconv.Itoa(k.version)}
		w.put(api.KindDevice, n)
	case 8: // a status of an assignment, and a device nobody asks about: no input changes
		if old != nil {
			n := api.Copy(old)
			n.Status.Ready = !n.Status.Ready
			w.put(api.KindAssignment, n)
		}
		w.put(api.KindDevice, &api.Device{Metadata: api.ObjectMeta{Name: "other"}})
	}
}

func TestF35ADeviceNeverGoesBackAndAlwaysConvergesWhateverMembersHaveSeen(t *testing.T) {
	id := Identity{ClusterID: "c", Epoch: 1, EpochID: "e1"}
	// Seed 21 has a member that forgets a deletion by its restart and then records.
	for _, seed := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 21} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(1)
			w.put(api.KindDevice, &api.Device{Metadata: api.ObjectMeta{Name: "d"}})
			k := &walk{r: r, w: w}
			members := []*member{{}, {}, {}}
			for _, m := range members {
				m.restart(w)
			}
			b := &board{versions: map[string]int{}}
			said := 0
			for range 700 {
				m := members[r.IntN(len(members))]
				switch r.IntN(10) {
				case 0, 1:
					k.change()
				case 2: // the member's own copy comes nearer, its views do not
					m.applied += r.IntN(len(w.log) - m.applied + 1)
				case 3: // the view of one kind moves a little
					m.advance(w, inputKinds()[r.IntN(len(inputKinds()))], 1+r.IntN(4))
				case 4: // all views but one are as new as can be
					m.applied = len(w.log)
					slow := r.IntN(len(inputKinds()))
					for i, kind := range inputKinds() {
						if i != slow {
							m.advance(w, kind, len(w.log))
						}
					}
				case 5: // all views are at what the member applied, which may be old
					for _, kind := range inputKinds() {
						m.advance(w, kind, len(w.log))
					}
				case 6:
					if r.IntN(6) == 0 {
						m.restart(w)
					}
				default:
					// As a held poll does: after a record the member waits for its own view of the device.
					if b.poll(t, w, m, id) == decide {
						m.applied = max(m.applied, len(w.log)-r.IntN(2))
						m.advance(w, api.KindDevice, len(w.log))
					}
					if b.poll(t, w, m, id) == say {
						said++
					}
				}
			}
			m := members[r.IntN(len(members))]
			for range 6 {
				m.catchUp(w)
				b.poll(t, w, m, id)
			}
			want, err := Build(m.view.inputs("d"), walkKeyed)
			if err != nil {
				t.Fatal(err)
			}
			if b.held.IsZero() && len(want.Entries)+len(want.Tombstones) == 0 {
				return
			}
			if !b.hash.Equal(want.Hash) {
				t.Errorf("held %s at %d, want %s: did not converge", b.hash, b.held.Revision, want.Hash)
			}
			for _, m := range members {
				m.catchUp(w)
				if v := b.poll(t, w, m, id); v != nothing {
					t.Errorf("verdict of a member that caught up: %d, want nothing (%d)", v, nothing)
				}
			}
			t.Logf("said %d times, %d revisions", said, len(w.log))
		})
	}
}
