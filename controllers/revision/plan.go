package revision

import (
	"cmp"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/controllers/copies"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

// defaultHistory is how many old revisions stay when the workload does not say.
const defaultHistory = 10

// view is what a plan is made from. Nothing in it is changed.
type view struct {
	workload    *api.Workload
	revisions   []*api.WorkloadRevision
	assignments []*api.Assignment
	rollouts    []*api.Rollout
}

// makePlan returns the writes that give the present template its revision (to be done together) and those that remove
// revisions beyond the history limit.
func makePlan(v view) (become, prune []client.TxItem, err error) {
	own := v.own()
	images, ok := copies.Images(v.workload)
	if !ok {
		return nil, v.prune(own), nil
	}
	hash, err := copies.TemplateHash(v.workload.Spec.Template, images)
	if err != nil {
		return nil, nil, err
	}
	name := copies.Shortened(v.workload.Metadata.Name, hash)
	newest := int64(0)
	var present *api.WorkloadRevision
	for _, r := range own {
		newest = max(newest, r.Spec.Revision)
		if r.Metadata.Name == name {
			present = r
		}
	}
	switch {
	case present == nil:
		become = append(become, reconcile.Create(v.fresh(name, hash, images, newest+1)))
	case present.Spec.Revision < newest && v.workload.Status.UpdatedRevision != name:
		next := api.Copy(present)
		next.Spec.Revision = newest + 1
		become = append(become, reconcile.Update(next))
	}
	if v.workload.Status.UpdatedRevision != name {
		next := api.Copy(v.workload)
		next.Status.UpdatedRevision = name
		become = append(become, reconcile.Status(next))
	}
	if len(become) == 0 {
		prune = v.prune(own)
	}
	return become, prune, nil
}

func (v view) fresh(name, hash string, images map[string]string, number int64) *api.WorkloadRevision {
	w := v.workload
	return &api.WorkloadRevision{
		Metadata: api.ObjectMeta{
			Name: name, Namespace: w.Metadata.Namespace,
			Labels: copies.Labels(nil, w.Metadata.Name, ""), OwnerReferences: reconcile.Owned(w),
		},
		Spec: api.WorkloadRevisionSpec{
			Workload: w.Metadata.Name, Revision: number, Hash: hash,
			Template: *api.Copy(&w.Spec.Template), Images: images,
		},
	}
}

// own are the workload's revisions, newest first. Those of an earlier workload of the same name are not.
func (v view) own() []*api.WorkloadRevision {
	var out []*api.WorkloadRevision
	for _, r := range v.revisions {
		if reconcile.OwnedBy(r, v.workload) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *api.WorkloadRevision) int { return cmp.Compare(b.Spec.Revision, a.Spec.Revision) })
	return out
}

// prune removes the oldest unused revisions beyond the limit. Those in use do not count against it.
func (v view) prune(own []*api.WorkloadRevision) []client.TxItem {
	left := defaultHistory
	if l := v.workload.Spec.RevisionHistoryLimit; l != nil {
		left = int(*l)
	}
	used := v.used()
	var out []client.TxItem
	for _, r := range own {
		if used[r.Metadata.Name] {
			continue
		}
		if left--; left < 0 {
			out = append(out, reconcile.Delete(r))
		}
	}
	return out
}

// used names the revisions that must stay.
func (v view) used() map[string]bool {
	st := v.workload.Status
	used := map[string]bool{st.CurrentRevision: true, st.UpdatedRevision: true}
	for _, a := range v.assignments {
		used[a.Spec.Revision], used[a.Status.Revision] = true, true
	}
	for _, r := range v.rollouts {
		switch r.Status.Phase {
		case api.RolloutCompleted, api.RolloutAborted, api.RolloutFailed:
		default:
			used[r.Spec.To], used[r.Spec.From] = true, true
		}
	}
	return used
}
