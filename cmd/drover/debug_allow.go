package main

import (
	"encoding/json"
	"strings"

	"github.com/drover-fleet/drover/api"
)

// neverCollected are kinds of which nothing helps but what must not leave the hub.
var neverCollected = []*api.Kind{api.KindEnrollmentRequest}

// alwaysShown are fields that every object shows. Values of annotations may be anything, so only their names are shown.
var alwaysShown = []string{
	"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.generation", "metadata.resourceVersion",
	"metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.finalizers", "metadata.ownerReferences",
	"metadata.managedFields.[].manager", "metadata.managedFields.[].operation", "metadata.managedFields.[].time",
	"metadata.annotations.*",
}

// container are the fields of a container: neither its command nor the values of its variables, in which people put passwords.
var container = []string{"name", "image", "imagePullPolicy", "ports", "resources", "volumeMounts", "securityContext", "env.[].name", "env.[].valueFrom"}

// shownFields are, by kind, what the bundle shows besides. A path ends with everything below it; ".[]" goes through a list, and ".*" shows the
// keys of a map without their values. What is not listed is not shown: a field that is new here is left out until somebody has thought of it.
func shownFields(k *api.Kind) []string {
	template := func(at string) []string {
		out := []string{at + ".metadata.labels"}
		for _, f := range container {
			out = append(out, at+".spec.containers.[]."+f, at+".spec.initContainers.[]."+f)
		}
		return append(out, at+".spec.volumes.[].name", at+".spec.restartPolicy", at+".spec.hostNetwork", at+".spec.serviceAccountName", at+".spec.terminationGracePeriodSeconds")
	}
	switch k {
	case api.KindWorkload:
		return append(template("spec.template"), "spec.placement", "spec.offline", "spec.rollout", "spec.revisionHistoryLimit", "status")
	case api.KindWorkloadRevision:
		return append(template("spec.template"), "spec.workload", "spec.revision", "spec.images")
	case api.KindAssignment, api.KindRollout, api.KindDevice, api.KindDevicePool, api.KindResourceQuota, api.KindNamespace, api.KindTombstone:
		return []string{"spec", "status"}
	case api.KindJoinToken:
		return []string{"spec.uses", "spec.expires", "spec.for", "spec.approve", "status"}
	case api.KindConfigMap:
		return []string{"data.*", "binaryData.*", "immutable"}
	case api.KindSecret:
		return []string{"data.*", "type", "immutable"}
	case api.KindEvent:
		return []string{"involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "source"}
	case api.KindPriorityClass:
		return []string{"value", "globalDefault", "description"}
	case api.KindRole, api.KindClusterRole:
		return []string{"rules", "aggregationRule"}
	case api.KindRoleBinding, api.KindClusterRoleBinding:
		return []string{"subjects", "roleRef"}
	}
	return nil
}

// projected is what the bundle shows of an object.
func projected(k *api.Kind, o api.Object) (any, error) {
	b, err := api.Encode(o)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, err
	}
	allow := &allowed{}
	for _, p := range append(shownFields(k), alwaysShown...) {
		allow.add(strings.Split(p, "."))
	}
	return allow.project(tree), nil
}

// allowed is a tree of paths that are shown.
type allowed struct {
	all   bool
	below map[string]*allowed
}

func (a *allowed) add(path []string) {
	if len(path) == 0 {
		a.all = true
		return
	}
	if a.below == nil {
		a.below = map[string]*allowed{}
	}
	next := a.below[path[0]]
	if next == nil {
		next = &allowed{}
		a.below[path[0]] = next
	}
	next.add(path[1:])
}

func (a *allowed) project(v any) any {
	if a.all {
		return v
	}
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			switch {
			case a.below["*"] != nil:
				out[k] = "(not shown)"
			case a.below[k] != nil:
				out[k] = a.below[k].project(e)
			}
		}
		return out
	case []any:
		each := a.below["[]"]
		if each == nil {
			return nil
		}
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = each.project(e)
		}
		return out
	}
	return nil
}
