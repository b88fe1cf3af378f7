package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func found(errs []FieldError, want string) bool {
	if want == "" {
		return len(errs) == 0
	}
	path, message, _ := strings.Cut(want, ": ")
	for _, e := range errs {
		if e.Path == path && strings.Contains(e.Message, message) {
			return true
		}
	}
	return false
}

func TestWhatAContainerAsksOfTheBoardIsChecked(t *testing.T) {
	const at = "spec.template.spec.containers[0]"
	port := func(c, h int32, proto string) ContainerPort {
		return ContainerPort{ContainerPort: c, HostPort: h, Protocol: proto}
	}
	file := func(path, permissions string) DeviceFile { return DeviceFile{path, permissions} }
	for _, tc := range []struct {
		name    string
		ports   []ContainerPort
		devices []DeviceFile
		path    string
		want    string
	}{
		{"a port twice under two protocols", []ContainerPort{port(53, 53, "TCP"), port(53, 53, "UDP")}, nil, "", ""},
		{"a port twice", []ContainerPort{port(53, 0, "TCP"), port(53, 0, "TCP")}, nil, "", at + ".ports[1]: there twice"},
		{"another host port", []ContainerPort{port(8080, 80, "TCP")}, nil, "", at + ".ports[0].hostPort: it must be the same"},
		{"no container port", []ContainerPort{port(0, 0, "TCP")}, nil, "", at + ".ports[0].containerPort: is 0"},
		{"port too high", []ContainerPort{port(65536, 0, "TCP")}, nil, "", at + ".ports[0].containerPort: is 65536"},
		{"protocol", []ContainerPort{port(1, 0, "tcp")}, nil, "", at + `.ports[0].protocol: did you mean TCP?`},
		{"port name", []ContainerPort{{Name: "HTTP", ContainerPort: 1, Protocol: "TCP"}}, nil, "", at + ".ports[0].name: is no port's name"},
		{"port name of digits", []ContainerPort{{Name: "80", ContainerPort: 1, Protocol: "TCP"}}, nil, "", at + ".ports[0].name: with a letter"},
		{"device", nil, []DeviceFile{file("/dev/video0", "rw"), file("/dev/snd/timer", "rwm")}, "", ""},
		{"device twice", nil, []DeviceFile{file("/dev/a", "r"), file("/dev/a", "w")}, "", at + ".devices[1].path: is there twice"},
		{"device elsewhere", nil, []DeviceFile{file("/etc/passwd", "rw")}, "", at + ".devices[0].path: is not a path below /dev"},
		{"device with a detour", nil, []DeviceFile{file("/dev/../etc/passwd", "rw")}, "", at + `.devices[0].path: has a part ".."`},
		{"device pattern", nil, []DeviceFile{file("/dev/video*", "rw")}, "", at + ".devices[0].path: is a pattern"},
		{"permissions", nil, []DeviceFile{file("/dev/a", "rwx")}, "", at + ".devices[0].permissions: want r, w and m"},
		{"permission twice", nil, []DeviceFile{file("/dev/a", "rww")}, "", at + ".devices[0].permissions: each at most once"},
		{"host path", nil, nil, "/srv/cameras/", ""},
		{"host path with a detour", nil, nil, "/srv//cameras", `spec.template.spec.volumes[0].hostPath.path: write it as "/srv/cameras"`},
		{"host path that steps back", nil, nil, "/srv/cameras/../../etc", `spec.template.spec.volumes[0].hostPath.path: has a part ".."`},
	} {
		w := goodWorkload(t)
		c := &w.Spec.Template.Spec.Containers[0]
		c.Ports, c.Devices = tc.ports, tc.devices
		if tc.path != "" {
			w.Spec.Template.Spec.Volumes = []Volume{{Name: "data", HostPath: &HostPathVolume{Path: tc.path}}}
		}
		if errs := Validate(w); !found(errs, tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, errs, tc.want)
		}
	}
	w := goodWorkload(t)
	s := &w.Spec.Template.Spec
	s.Containers[0].Ports = []ContainerPort{{Name: "web", ContainerPort: 80, HostPort: 80, Protocol: "TCP"}}
	s.Containers = append(s.Containers, s.Containers[0])
	s.Containers[1].Name = "other"
	errs := Validate(w)
	for _, want := range []string{"spec.template.spec.containers[1].ports[0].hostPort: there twice", "spec.template.spec.containers[1].ports[0].name: there twice"} {
		if !found(errs, want) {
			t.Errorf("two containers with one host port: got %v, want %q", errs, want)
		}
	}
}

func TestFieldsOfASecurityContextThatAreNotBuiltAreRefusedByName(t *testing.T) {
	manifest := strings.Replace(hello, "        image:", "        securityContext: {privileged: true, runAsUser: 1000}\n        image:", 1)
	_, err := DecodeManifests("f.yaml", []byte(manifest))
	if err == nil || !strings.Contains(err.Error(), "runAsUser") || !strings.Contains(err.Error(), "not supported") || strings.Contains(err.Error(), "privileged: ") {
		t.Errorf("got %v, want runAsUser refused by name and privileged taken", err)
	}
}

func poolOf(name string, weight int32, labels map[string]string, namespaces ...string) *DevicePool {
	p := &DevicePool{Metadata: ObjectMeta{Name: name}, Spec: DevicePoolSpec{Weight: weight, Namespaces: namespaces}}
	if labels == nil {
		p.Spec.All = true
	} else {
		p.Spec.Selector = &LabelSelector{MatchLabels: labels}
	}
	Default(p)
	return p
}

func TestHeaviestPoolCountsThenTheFirstByName(t *testing.T) {
	north, lab := map[string]string{"site": "north"}, map[string]string{"room": "lab"}
	pools := NewPools([]*DevicePool{poolOf("zeta", 5, north, "a"), poolOf("beta", 5, north, "b"), poolOf("lab", 9, lab, "c"), poolOf("rest", -1, nil),
		{Metadata: ObjectMeta{Name: "none"}, Spec: DevicePoolSpec{Weight: 99}}})
	for _, tc := range []struct {
		labels map[string]string
		want   string
	}{
		{north, "beta"}, {lab, "lab"}, {map[string]string{"site": "north", "room": "lab"}, "lab"}, {nil, "rest"},
	} {
		if got := pools.Of(tc.labels); got == nil || got.Metadata.Name != tc.want || pools.Grant(tc.labels).Pool != tc.want {
			t.Errorf("%v: got %v, want %s", tc.labels, got, tc.want)
		}
	}
	if got := NewPools(nil).Grant(north); got.Pool != "" || got.Judge("any", nil) != nil {
		t.Errorf("without pools: got %+v, want every namespace admitted", got)
	}
	open := NewPools([]*DevicePool{poolOf("north", 0, north, "a")})
	if got := open.Grant(lab); got.Pool != "" || got.Judge("any", nil) != nil {
		t.Errorf("a device that no pool selects: got %+v, want it open", got)
	}
}

func TestPoolsQuotasAndClassesThatCannotWorkAreRefused(t *testing.T) {
	pool := func(change func(*DevicePool)) Object {
		p := poolOf("p", 0, map[string]string{"a": "b"}, "north")
		change(p)
		return p
	}
	quota := func(name, value string) Object {
		q := &ResourceQuota{Metadata: ObjectMeta{Name: "q"}, Spec: ResourceQuotaSpec{Hard: ResourceList{name: quantity(t, value)}}}
		Default(q)
		return q
	}
	class := func(name string, value int32) Object {
		c := &PriorityClass{Metadata: ObjectMeta{Name: name}, Value: value}
		Default(c)
		return c
	}
	for name, tc := range map[string]struct {
		obj  Object
		want string
	}{
		"pool":                    {pool(func(*DevicePool) {}), ""},
		"every namespace":         {pool(func(p *DevicePool) { p.Spec.Namespaces = []string{"*"} }), ""},
		"no namespace":            {pool(func(p *DevicePool) { p.Spec.Namespaces = nil }), ""},
		"selects nothing":         {pool(func(p *DevicePool) { p.Spec.Selector = nil }), "spec.selector: selects nothing"},
		"all and selector":        {pool(func(p *DevicePool) { p.Spec.All = true }), "spec: has both all: true and a selector"},
		"namespace twice":         {pool(func(p *DevicePool) { p.Spec.Namespaces = []string{"a", "a"} }), "spec.namespaces[1]: is there twice"},
		"namespace pattern":       {pool(func(p *DevicePool) { p.Spec.Namespaces = []string{"north-*"} }), "spec.namespaces[0]: has the character"},
		"weight":                  {pool(func(p *DevicePool) { p.Spec.Weight = 1_000_001 }), "spec.weight: is 1000001"},
		"port":                    {pool(func(p *DevicePool) { p.Spec.Allow.HostPorts = []int32{0} }), "spec.allow.hostPorts[0]: is 0"},
		"path":                    {pool(func(p *DevicePool) { p.Spec.Allow.HostPaths = []string{"/a/../b"} }), `spec.allow.hostPaths[0]: has a part ".."`},
		"glob":                    {pool(func(p *DevicePool) { p.Spec.Allow.Devices = []string{"/dev/[a"} }), "spec.allow.devices[0]: is not a pattern"},
		"glob elsewhere":          {pool(func(p *DevicePool) { p.Spec.Allow.Devices = []string{"/proc/*"} }), "spec.allow.devices[0]: is not a path below /dev"},
		"glob that steps back":    {pool(func(p *DevicePool) { p.Spec.Allow.Devices = []string{"/dev/../*"} }), `spec.allow.devices[0]: has a part ".."`},
		"count":                   {quota("count/workloads.fleet.drover.dev", "10"), ""},
		"count by plural":         {quota("count/workloads", "10"), ""},
		"count of a core kind":    {quota("count/secrets", "10"), ""},
		"short":                   {quota("configmaps", "10"), ""},
		"sum":                     {quota("requests.cpu", "1500m"), ""},
		"count of what is not":    {quota("count/pods", "10"), "spec.hard.count/pods: is nothing that a quota limits"},
		"count of a global kind":  {quota("count/devices.fleet.drover.dev", "1"), `spec.hard["count/devices.fleet.drover.dev"]: is nothing that a quota limits`},
		"count of another group":  {quota("count/secrets.fleet.drover.dev", "1"), `spec.hard["count/secrets.fleet.drover.dev"]: is nothing`},
		"half an object":          {quota("secrets", "1500m"), "spec.hard.secrets: is no whole number"},
		"half a byte":             {quota("limits.memory", "500m"), `spec.hard["limits.memory"]: is no whole number`},
		"storage":                 {quota("requests.storage", "1"), `spec.hard["requests.storage"]: is nothing that a quota limits`},
		"class":                   {class("gold", MaxPriority), ""},
		"class too high":          {class("gold", MaxPriority+1), "value: is 1000000001"},
		"class too low":           {class("gold", MinPriority-1), "value: is -1000000001"},
		"class kept for the hub":  {class("system-node-critical", 1), "metadata.name: are kept for the hub"},
		"workload with bad class": {func() Object { w := goodWorkload(t); w.Spec.Placement.PriorityClassName = "A"; return w }(), "spec.placement.priorityClassName: upper-case"},
	} {
		if k, _ := KindFor(tc.obj); k.Namespaced {
			tc.obj.Meta().Namespace = "default"
		}
		want := tc.want
		if path, rest, ok := strings.Cut(want, ": "); ok && strings.HasPrefix(path, "spec.hard.count/") {
			want = fmt.Sprintf("spec.hard[%q]: %s", strings.TrimPrefix(path, "spec.hard."), rest)
		}
		if errs := Validate(tc.obj); !found(errs, want) {
			t.Errorf("%s: got %v, want %q", name, errs, want)
		}
	}
	if errs := ValidateUpdate(class("gold", 1), class("gold", 2)); !found(errs, "value: may not change") {
		t.Errorf("another value: got %v, want it refused", errs)
	}
}

func TestChargeOfACopyIsTheSumOfItsContainers(t *testing.T) {
	s := PodSpec{Containers: []Container{
		{Name: "a", Resources: ResourceRequirements{Requests: ResourceList{"cpu": quantity(t, "100m"), "memory": quantity(t, "64Mi")}}},
		{Name: "b", Resources: ResourceRequirements{Requests: ResourceList{"cpu": quantity(t, "50m")}, Limits: ResourceList{"memory": quantity(t, "128Mi")}}},
	}}
	a := &Assignment{Spec: AssignmentSpec{Resources: s.Resources()}}
	got := map[string]string{}
	for _, name := range []string{"requests.cpu", "cpu", "requests.memory", "limits.memory", "limits.cpu", "assignments", "count/assignments", "count/workloads", "configmaps"} {
		got[name] = QuotaCharge(name, a).String()
	}
	want := map[string]string{"requests.cpu": "150m", "cpu": "150m", "requests.memory": "64Mi", "limits.memory": "128Mi", "limits.cpu": "0",
		"assignments": "1", "count/assignments": "1", "count/workloads": "0", "configmaps": "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("charges (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"requests.memory": "[b]", "limits.cpu": "[a b]", "requests.cpu": "[]", "memory": "[b]", "secrets": "[]"} {
		if got := fmt.Sprint(QuotaUnspecified(name, &s)); got != want {
			t.Errorf("containers without %s: got %s, want %s", name, got, want)
		}
	}
	var none PodSpec
	if r := none.Resources(); r.Requests != nil || r.Limits != nil {
		t.Errorf("got %+v, want a template that asks for nothing to add no field", r)
	}
}
