package admission

import (
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/access"
	"github.com/drover-fleet/drover/hub/registry"
)

// standing is a state that a test writes down.
type standing []api.Object

func (s standing) All(k *api.Kind, _ string) ([]api.Object, error) {
	var out []api.Object
	for _, o := range s {
		if have, _ := api.KindFor(o); have == k {
			out = append(out, o)
		}
	}
	return out, nil
}

func (s standing) Labels(k *api.Kind, visit func(string, map[string]string) bool) error {
	all, err := s.All(k, "")
	for _, o := range all {
		if !visit(o.Meta().Name, o.Meta().Labels) {
			break
		}
	}
	return err
}

func (s standing) load(ref api.Ref) (api.Object, error) {
	for _, o := range s {
		if have, ok := api.RefOf(o); ok && have == ref {
			return o, nil
		}
	}
	return nil, nil
}

func board(name, site string) *api.Device {
	return &api.Device{Metadata: api.ObjectMeta{Name: name, Labels: map[string]string{"site": site}}}
}

func TestWorkloadThatNoDeviceMayTakeIsRefusedWithFieldAndPool(t *testing.T) {
	north := &api.DevicePool{Metadata: api.ObjectMeta{Name: "north"}, Spec: api.DevicePoolSpec{
		Selector: &api.LabelSelector{MatchLabels: map[string]string{"site": "north"}}, Namespaces: []string{"north"},
		Allow: api.Privileges{HostPorts: []int32{80}, HostPaths: []string{"/srv/cameras"}}}}
	no := false
	shut := &api.DevicePool{Metadata: api.ObjectMeta{Name: "shut"}, Spec: api.DevicePoolSpec{All: true, Namespaces: []string{"*"}, Weight: -1, Allow: api.Privileges{HostNetwork: &no}}}
	boards := standing{board("n1", "north"), board("s1", "south")}
	yes := true
	asks := map[string]func(*api.PodSpec){
		"nothing": func(*api.PodSpec) {},
		"path": func(s *api.PodSpec) {
			s.Volumes = []api.Volume{{HostPath: &api.HostPathVolume{Path: "/srv/cameras/1"}}}
		},
		"etc":        func(s *api.PodSpec) { s.Volumes = []api.Volume{{HostPath: &api.HostPathVolume{Path: "/etc"}}} },
		"port":       func(s *api.PodSpec) { s.Containers[0].Ports = []api.ContainerPort{{ContainerPort: 22, HostPort: 22}} },
		"privileged": func(s *api.PodSpec) { s.Containers[0].SecurityContext = &api.SecurityContext{Privileged: &yes} },
		"port and privileged": func(s *api.PodSpec) {
			s.Containers[0].Ports = []api.ContainerPort{{ContainerPort: 22, HostPort: 22}}
			s.Containers[0].SecurityContext = &api.SecurityContext{Privileged: &yes}
		},
	}
	for _, tc := range []struct {
		name      string
		state     standing
		ns, site  string
		ask, want string
	}{
		{"no pool, nothing asked", boards, "south", "north", "nothing", ""},
		{"no pool, a path", boards, "south", "north", "path", "spec.template.spec.volumes[0].hostPath.path: no pool of the device allows host path /srv/cameras/1; an operator allows it by a DevicePool"},
		{"its own pool", append(standing{north}, boards...), "north", "north", "path", ""},
		{"another path", append(standing{north}, boards...), "north", "north", "etc", "spec.template.spec.volumes[0].hostPath.path: pool north does not allow host path /etc (it allows /srv/cameras)"},
		{"another port", append(standing{north}, boards...), "north", "north", "port", "spec.template.spec.containers[0].ports[0].hostPort: pool north does not allow host port 22 (it allows 80)"},
		{"privileged", append(standing{north}, boards...), "north", "north", "privileged", "spec.template.spec.containers[0].securityContext.privileged: pool north does not allow privileged containers"},
		{"all that is refused at once", append(standing{north}, boards...), "north", "north", "port and privileged",
			"hostPort: pool north does not allow host port 22 (it allows 80); spec.template.spec.containers[0].securityContext.privileged: pool north does not allow privileged containers"},
		{"another namespace's devices", append(standing{north}, boards...), "south", "north", "nothing", "metadata.namespace: pool north does not admit namespace south (it admits north)"},
		{"devices without a pool", append(standing{north}, boards...), "south", "south", "nothing", ""},
		{"devices without a pool, privileged", append(standing{north}, boards...), "south", "south", "privileged", "no pool of the device allows privileged containers"},
		{"some of the devices", append(standing{north}, boards...), "south", "", "nothing", ""},
		{"no device yet, a pool that could", standing{north}, "north", "north", "path", ""},
		{"no device yet, no pool that could", standing{north}, "south", "north", "path", "pool north does not admit namespace south"},
		{"a pool without the host's network", append(standing{shut}, boards...), "south", "south", "nothing", "spec.template.spec.hostNetwork: pool shut does not allow the host's network"},
	} {
		w := workload("", "a:1")
		w.Metadata.Namespace = tc.ns
		w.Spec.Placement.All = tc.site == ""
		if tc.site != "" {
			w.Spec.Placement.Selector = &api.LabelSelector{MatchLabels: map[string]string{"site": tc.site}}
		}
		asks[tc.ask](&w.Spec.Template.Spec)
		rq := write("create", api.KindWorkload, nil, w)
		rq.State = tc.state
		err := admitter(t, &recorder{}).Validate(t.Context(), rq)
		if tc.want == "" && err != nil || tc.want != "" && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
		stood := api.Copy(w)
		rq = write("update", api.KindWorkload, stood, w)
		rq.State = tc.state
		if err := admitter(t, &recorder{}).Validate(t.Context(), rq); err != nil {
			t.Errorf("%s, its spec as it was: got %v, want what stands left alone", tc.name, err)
		}
	}
}

func TestPriorityIsTheClassesValueWhenItIsNamedAndTakesARight(t *testing.T) {
	gold := &api.PriorityClass{Metadata: api.ObjectMeta{Name: "gold"}, Value: 1000}
	low := &api.PriorityClass{Metadata: api.ObjectMeta{Name: "low"}, Value: -5}
	usual := &api.PriorityClass{Metadata: api.ObjectMeta{Name: "usual"}, Value: 10, GlobalDefault: true}
	may := access.NewPolicy()
	for _, o := range []api.Object{
		&api.Role{Metadata: api.ObjectMeta{Namespace: "default", Name: "gold"}, Rules: []api.PolicyRule{
			{Verbs: []string{"use"}, APIGroups: []string{"fleet.drover.dev"}, Resources: []string{"priorityclasses"}, ResourceNames: []string{"gold"}},
			{Verbs: []string{"*"}, APIGroups: []string{"fleet.drover.dev"}, Resources: []string{"workloads"}}}},
		&api.RoleBinding{Metadata: api.ObjectMeta{Namespace: "default", Name: "gold"}, Subjects: []api.Subject{{Kind: "User", Name: "alice"}},
			RoleRef: api.RoleRef{Kind: "Role", Name: "gold"}},
		&api.ClusterRole{Metadata: api.ObjectMeta{Name: "writer"}, Rules: []api.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"fleet.drover.dev"}, Resources: []string{"workloads"}}}},
		&api.ClusterRoleBinding{Metadata: api.ObjectMeta{Name: "writer"}, Subjects: []api.Subject{{Kind: "User", Name: "bob"}}, RoleRef: api.RoleRef{Kind: "ClusterRole", Name: "writer"}},
	} {
		may.Put(o)
	}
	a, err := New(Config{Images: &recorder{}, Logger: admitter(t, &recorder{}).cfg.Logger, Access: may})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, user, class string
		state             standing
		old               *int32
		want              int32
		refused           string
	}{
		{"named, with the right", "alice", "gold", standing{gold, usual}, nil, 1000, ""},
		{"named, without it", "bob", "gold", standing{gold, usual}, nil, 0, `cannot use resource "priorityclasses"`},
		{"not above 0", "bob", "low", standing{low}, nil, -5, ""},
		{"none named", "bob", "", standing{gold, usual}, nil, 10, ""},
		{"no default", "bob", "", standing{gold}, nil, 0, ""},
		{"unknown", "alice", "silver", standing{gold}, nil, 0, "there is no PriorityClass silver"},
		{"as it was found", "bob", "gold", nil, &gold.Value, 1000, ""},
	} {
		w := workload("")
		w.Spec.Placement.PriorityClassName = tc.class
		rq := write("create", api.KindWorkload, nil, w)
		if tc.old != nil {
			old := api.Copy(w)
			old.Status.Priority = tc.old
			rq = write("update", api.KindWorkload, old, w)
		}
		user := access.NewPerson(tc.user)
		rq.Actor = registry.Actor{Name: "user:" + tc.user, User: &user}
		rq.State, rq.Load = tc.state, tc.state.load
		err := a.resolvePriority(rq, w)
		got := int32(0)
		if w.Status.Priority != nil {
			got = *w.Status.Priority
		}
		if tc.refused == "" && (err != nil || got != tc.want) || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%s: got %d, %v; want %d, %q", tc.name, got, err, tc.want, tc.refused)
		}
	}
	second := &api.PriorityClass{Metadata: api.ObjectMeta{Name: "other"}, GlobalDefault: true}
	rq := write("create", api.KindPriorityClass, nil, second)
	rq.State = standing{usual}
	if err := checkClass(rq, second); !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "usual is the global default already") {
		t.Errorf("a second default: got %v", err)
	}
}
