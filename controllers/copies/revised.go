package copies

import (
	"encoding/json"
	"fmt"

	"github.com/drover-fleet/drover/api"
)

// Images are what the images of the present generation of a workload resolved to; false when one is not known.
func Images(w *api.Workload) (map[string]string, bool) {
	c := api.FindCondition(w.Status.Conditions, CondImageResolved)
	if c == nil || c.Status != api.True || c.ObservedGeneration != w.Metadata.Generation {
		return nil, false
	}
	images := map[string]string{}
	for _, ctr := range w.Spec.Template.Spec.Containers {
		digest, ok := w.Status.Images[ctr.Image]
		if !ok {
			return nil, false
		}
		images[ctr.Image] = digest
	}
	return images, true
}

// ImagesSince is the generation whose images are resolved; 0 = those of the newest are not.
func ImagesSince(w *api.Workload) int64 {
	c := api.FindCondition(w.Status.Conditions, CondImageResolved)
	if c == nil || c.Status != api.True {
		return 0
	}
	return c.ObservedGeneration
}

// TemplateHash is of the template with each image replaced by its digest, so that a template that names an old one by digest
// is the same revision.
func TemplateHash(t api.Template, images map[string]string) (string, error) {
	c := api.Copy(&t)
	for i := range c.Spec.Containers {
		if digest, ok := images[c.Spec.Containers[i].Image]; ok {
			c.Spec.Containers[i].Image = digest
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode template: %w", err)
	}
	return Hash(string(data)), nil
}

// Revised reports whether status.updatedRevision is that of the present spec. Until it is, a status speaks of an earlier one.
func Revised(w *api.Workload) bool {
	images, ok := Images(w)
	if !ok {
		return false
	}
	hash, err := TemplateHash(w.Spec.Template, images)
	return err == nil && w.Status.UpdatedRevision == Shortened(w.Metadata.Name, hash)
}
