package apiserver

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/api"
)

func tenancyColumns(k *api.Kind) (narrow, wide []column) {
	switch k {
	case api.KindDevicePool:
		type P = *api.DevicePool
		narrow = []column{
			number("Devices", "Devices for which this pool counts.", func(o P) int64 { return int64(o.Status.Devices) }),
			text("Namespaces", "That may use the devices.", func(o P) string { return orNone(strings.Join(o.Spec.Namespaces, ",")) }),
			number("Weight", "Of the pools that select a device the heaviest counts.", func(o P) int64 { return int64(o.Spec.Weight) }),
		}
	case api.KindResourceQuota:
		narrow = []column{text("Used", "Used of each limit.", usedOf)}
	case api.KindPriorityClass:
		type C = *api.PriorityClass
		narrow = []column{
			number("Value", "The greater goes first.", func(o C) int64 { return int64(o.Value) }),
			text("Global-Default", "Whether workloads without a class have this one.", func(o C) string { return yesNo(o.GlobalDefault) }),
		}
		wide = []column{text("Description", "", func(o C) string { return o.Description })}
	}
	return narrow, wide
}

// usedOf is "count/workloads 3/100, secrets 0/5".
func usedOf(q *api.ResourceQuota) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		used := "?"
		if n, ok := q.Status.Used[name]; ok {
			used = n.String()
		}
		hard := q.Spec.Hard[name]
		parts = append(parts, name+" "+used+"/"+hard.String())
	}
	return orNone(strings.Join(parts, ", "))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func rightsColumns(k *api.Kind) (narrow, wide []column) {
	switch k {
	case api.KindRoleBinding:
		type B = *api.RoleBinding
		narrow = []column{text("Role", "The role given.", func(b B) string { return b.RoleRef.Kind + "/" + b.RoleRef.Name })}
		wide = []column{text("Subjects", "To whom.", func(b B) string { return subjects(b.Subjects) })}
	case api.KindClusterRoleBinding:
		type B = *api.ClusterRoleBinding
		narrow = []column{text("Role", "The role given.", func(b B) string { return b.RoleRef.Kind + "/" + b.RoleRef.Name })}
		wide = []column{text("Subjects", "To whom.", func(b B) string { return subjects(b.Subjects) })}
	case api.KindRole:
		narrow = []column{number("Rules", "", func(r *api.Role) int64 { return int64(len(r.Rules)) })}
	case api.KindClusterRole:
		narrow = []column{number("Rules", "", func(r *api.ClusterRole) int64 { return int64(len(r.Rules)) })}
	}
	return narrow, wide
}

func subjects(list []api.Subject) string {
	var out []string
	for _, s := range list {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + name
		}
		out = append(out, s.Kind+"/"+name)
	}
	return orNone(strings.Join(out, ","))
}
