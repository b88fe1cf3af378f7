package access

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

func rules(r ...api.PolicyRule) []api.PolicyRule { return r }

func rule(verbs, groups, resources string, names ...string) api.PolicyRule {
	return api.PolicyRule{Verbs: split(verbs), APIGroups: split(groups), Resources: split(resources), ResourceNames: names}
}

func paths(verbs, urls string) api.PolicyRule {
	return api.PolicyRule{Verbs: split(verbs), NonResourceURLs: split(urls)}
}

func split(s string) []string { return strings.Split(s, ",") }

// TestRulesMatchAsInKubernetes is the table of what a rule gives.
func TestRulesMatchAsInKubernetes(t *testing.T) {
	get := func(group, resource, sub, name string) Attributes {
		return Attributes{Verb: "get", Group: group, Resource: resource, Subresource: sub, Name: name, Namespace: "n"}
	}
	verb := func(v string, a Attributes) Attributes { a.Verb = v; return a }
	path := func(v, p string) Attributes { return Attributes{Verb: v, Path: p} }
	secret := get("", "secrets", "", "s")
	all := rule("*", "*", "*")
	for _, tt := range []struct {
		name string
		r    api.PolicyRule
		a    Attributes
		want bool
	}{
		{"the very thing", rule("get", "", "secrets"), secret, true},
		{"another verb", rule("list", "", "secrets"), secret, false},
		{"another group", rule("get", "apps", "secrets"), secret, false},
		{"another resource", rule("get", "", "configmaps"), secret, false},
		{"verbs by a star", rule("*", "", "secrets"), secret, true},
		{"groups by a star", rule("get", "*", "secrets"), secret, true},
		{"resources by a star", rule("get", "", "*"), secret, true},
		{"a star covers subresources", rule("get", "", "*"), get("", "secrets", "status", "s"), true},
		{"a resource does not cover its subresources", rule("get", "g", "workloads"), get("g", "workloads", "status", "w"), false},
		{"a subresource", rule("get", "g", "workloads/status"), get("g", "workloads", "status", "w"), true},
		{"a subresource does not cover its resource", rule("get", "g", "workloads/status"), get("g", "workloads", "", "w"), false},
		{"a subresource of every resource", rule("get", "g", "*/status"), get("g", "workloads", "status", "w"), true},
		{"another subresource of every resource", rule("get", "g", "*/scale"), get("g", "workloads", "status", "w"), false},
		{"a resource's star is no glob", rule("get", "g", "workloads/*"), get("g", "workloads", "status", "w"), false},
		{"the name", rule("get", "", "secrets", "s"), secret, true},
		{"another name", rule("get", "", "secrets", "x"), secret, false},
		{"a name covers no create", rule("create", "", "secrets", "s"), verb("create", get("", "secrets", "", "")), false},
		{"a name covers no list of all", rule("list", "", "secrets", "s"), verb("list", get("", "secrets", "", "")), false},
		{"a name covers the list of that name", rule("list", "", "secrets", "s"), verb("list", secret), true},
		{"a name covers no deletecollection", rule("deletecollection", "", "secrets", "s"), verb("deletecollection", get("", "secrets", "", "")), false},
		{"a star is no name", rule("get", "", "secrets", "*"), secret, false},
		{"everything", all, secret, true},
		{"everything is not bind", all, verb("bind", get(api.RBACGroup, "clusterroles", "", "admin")), false},
		{"everything is not escalate", all, verb("escalate", get(api.RBACGroup, "clusterroles", "", "admin")), false},
		{"everything is not impersonate", all, verb("impersonate", get("", "users", "", "alice")), false},
		{"bind by name", rule("*,bind", api.RBACGroup, "clusterroles", "viewer"), verb("bind", get(api.RBACGroup, "clusterroles", "", "viewer")), true},
		{"everything covers use", all, verb("use", get("g", "priorityclasses", "", "gold")), true},
		{"everything asked for", all, Attributes{Verb: "*", Group: "*", Resource: "*"}, true},
		{"everything asked for of something", rule("get", "*", "*"), Attributes{Verb: "*", Group: "*", Resource: "*"}, false},
		{"everything is no path", all, path("get", "/metrics"), false},
		{"a path", paths("get", "/metrics"), path("get", "/metrics"), true},
		{"a path with another verb", paths("get", "/metrics"), path("post", "/metrics"), false},
		{"a path below another", paths("get", "/api"), path("get", "/api/v1"), false},
		{"a path by its beginning", paths("get", "/api/*"), path("get", "/api/v1"), true},
		{"a beginning is not the path itself", paths("get", "/api/*"), path("get", "/api"), false},
		{"every path", paths("*", "*"), path("post", "/drover/v1/hub/remove"), true},
		{"a path is no resource", paths("*", "*"), secret, false},
	} {
		if got := Matches(&tt.r, &tt.a); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestNobodyGrantsWhatTheyDoNotHold is the table of what covers what.
func TestNobodyGrantsWhatTheyDoNotHold(t *testing.T) {
	for _, tt := range []struct {
		name         string
		held, wanted []api.PolicyRule
		missing      int
	}{
		{"the same", rules(rule("get", "", "secrets")), rules(rule("get", "", "secrets")), 0},
		{"a verb more", rules(rule("get", "", "secrets")), rules(rule("get,list", "", "secrets")), 1},
		{"from two rules", rules(rule("get", "", "secrets"), rule("list", "", "secrets")), rules(rule("get,list", "", "secrets")), 0},
		{"every verb that there is, for a star", rules(rule("get,list,watch,create,update,patch,delete,deletecollection", "", "secrets")), rules(rule("*", "", "secrets")), 1},
		{"a star for a star", rules(rule("*", "", "secrets")), rules(rule("*", "", "secrets")), 0},
		{"everything for what must be named", rules(rule("*", "*", "*"), paths("*", "*")), rules(rule("bind,escalate,impersonate", "*", "*")), 3},
		{"an admin's everything for itself", Everything(), Everything(), 0},
		{"without names for a name", rules(rule("get", "", "secrets")), rules(rule("get", "", "secrets", "s")), 0},
		{"a name for all names", rules(rule("get", "", "secrets", "s")), rules(rule("get", "", "secrets")), 1},
		{"one name of two", rules(rule("get", "", "secrets", "s")), rules(rule("get", "", "secrets", "s", "t")), 1},
		{"a subresource of all for one", rules(rule("get", "", "*/status")), rules(rule("get", "", "workloads/status")), 0},
		{"one for a subresource of all", rules(rule("get", "", "workloads/status")), rules(rule("get", "", "*/status")), 1},
		{"a resource for its subresource", rules(rule("get", "", "workloads")), rules(rule("get", "", "workloads/status")), 1},
		{"a path's beginning", rules(paths("get", "/api/*")), rules(paths("get", "/api/v1,/api/v1/*")), 0},
		{"a shorter beginning", rules(paths("get", "/api/*")), rules(paths("get", "/*")), 1},
		{"resources for paths", rules(rule("*", "*", "*")), rules(paths("get", "/metrics")), 1},
	} {
		if got := Uncovered(tt.held, tt.wanted); len(got) != tt.missing {
			t.Errorf("%s: got %+v missing, want %d", tt.name, got, tt.missing)
		}
	}
}

func bindTo(p *Policy, namespace, name string, ref api.RoleRef, s ...api.Subject) {
	m := api.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		p.Put(&api.ClusterRoleBinding{Metadata: m, RoleRef: ref, Subjects: s})
	} else {
		p.Put(&api.RoleBinding{Metadata: m, RoleRef: ref, Subjects: s})
	}
}

func clusterRole(name string) api.RoleRef { return api.RoleRef{Kind: "ClusterRole", Name: name} }

func TestABindingCountsWhereItLiesAndForWhomItNames(t *testing.T) {
	p := NewPolicy()
	p.Put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "reads"}, Rules: rules(rule("get", "", "secrets"), paths("get", "/metrics"))})
	p.Put(&api.Role{Metadata: api.ObjectMeta{Namespace: "a", Name: "reads"}, Rules: rules(rule("get", "", "configmaps"))})
	bindTo(p, "a", "alice", clusterRole("reads"), api.Subject{Kind: "User", Name: "alice"})
	bindTo(p, "", "ops", clusterRole("reads"), api.Subject{Kind: "Group", Name: "ops"}, api.Subject{Kind: "ServiceAccount", Namespace: "a", Name: "ci"})
	bindTo(p, "a", "role", api.RoleRef{Kind: "Role", Name: "reads"}, api.Subject{Kind: "User", Name: "carol"})
	bindTo(p, "b", "role", api.RoleRef{Kind: "Role", Name: "reads"}, api.Subject{Kind: "User", Name: "carol"}) // b has no such role
	bindTo(p, "", "dangles", clusterRole("none"), api.Subject{Kind: "User", Name: "dave"})
	alice, ops, carol := NewPerson("alice"), NewPerson("bob", "ops"), NewPerson("carol")
	account, imposter := NewServiceAccount("a", "ci", "u", nil), NewPerson("a:ci")
	member, device, dave, groupless := Identity{Kind: Member, Name: "alice", Groups: []string{"ops"}}, Identity{Kind: Device, Name: "alice", Groups: []string{"ops"}}, NewPerson("dave"), NewPerson("ops")
	secret := func(ns string) Attributes {
		return Attributes{Verb: "get", Resource: "secrets", Namespace: ns, Name: "x"}
	}
	for _, tt := range []struct {
		name string
		who  *Identity
		a    Attributes
		want bool
	}{
		{"in its namespace", &alice, secret("a"), true},
		{"in another", &alice, secret("b"), false},
		{"in the whole cluster", &alice, secret(""), false},
		{"a path by a binding of a namespace", &alice, Attributes{Verb: "get", Path: "/metrics"}, false},
		{"a group everywhere", &ops, secret("b"), true},
		{"a group in the whole cluster", &ops, secret(""), true},
		{"a path by a binding of the cluster", &ops, Attributes{Verb: "get", Path: "/metrics"}, true},
		{"a user who is called as a group", &groupless, secret("b"), false},
		{"a service account", &account, secret("b"), true},
		{"somebody who is called so", &imposter, secret("b"), false},
		{"a role of the namespace", &carol, Attributes{Verb: "get", Resource: "configmaps", Namespace: "a"}, true},
		{"a role of the same name elsewhere", &carol, Attributes{Verb: "get", Resource: "configmaps", Namespace: "b"}, false},
		{"a role that is not there", &dave, secret("a"), false},
		{"a member, whatever it is called", &member, secret("a"), false},
		{"a device, whatever it is called", &device, secret("a"), false},
	} {
		d, err := p.Authorize(tt.who, &tt.a)
		if err != nil || d.Allowed != tt.want || d.Allowed && !strings.HasPrefix(d.Reason, "RBAC: allowed by ") {
			t.Errorf("%s: got %+v, %v; want %v", tt.name, d, err, tt.want)
		}
	}
	p.Delete(&api.ClusterRoleBinding{Metadata: api.ObjectMeta{Name: "ops"}})
	a := secret("b")
	if d, _ := p.Authorize(&ops, &a); d.Allowed {
		t.Error("a binding that is gone still counts")
	}
}

func TestUntilRolesWereReadOnlyAdminsAreLetIn(t *testing.T) {
	p := NewPolicy()
	unread := make(chan struct{})
	p.synced = append(p.synced, unread)
	a := Attributes{Verb: "get", Resource: "secrets"}
	bob, admin := NewPerson("bob"), NewPerson("root", "drover:admins")
	if _, err := p.Authorize(&bob, &a); !fault.Is(err, fault.Unavailable) || fault.RetryAfter(err) == 0 {
		t.Errorf("bob before: got %v, want to be told to try later", err)
	}
	if d, err := p.Authorize(&admin, &a); err != nil || !d.Allowed {
		t.Errorf("an admin before: got %+v, %v, want allowed", d, err)
	}
	close(unread)
	if d, err := p.Authorize(&bob, &a); err != nil || d.Allowed {
		t.Errorf("bob after: got %+v, %v, want refused", d, err)
	}
}

// naive decides by walking over everything, as the conventions read.
type naive struct {
	roles    []api.Object
	bindings []api.Object
}

func (n *naive) allowed(id *Identity, a *Attributes) bool {
	for _, o := range n.bindings {
		ns, ref, subjects := o.Meta().Namespace, api.RoleRef{}, []api.Subject(nil)
		switch b := o.(type) {
		case *api.RoleBinding:
			ref, subjects = b.RoleRef, b.Subjects
		case *api.ClusterRoleBinding:
			ref, subjects = b.RoleRef, b.Subjects
		}
		if ns != "" && (ns != a.Namespace || a.Path != "") || !slices.ContainsFunc(subjects, func(s api.Subject) bool { return n.is(id, s) }) {
			continue
		}
		for _, r := range n.roles {
			if r.Meta().Name != ref.Name {
				continue
			}
			var rs []api.PolicyRule
			switch r := r.(type) {
			case *api.Role:
				if ref.Kind != "Role" || r.Metadata.Namespace != ns {
					continue
				}
				rs = r.Rules
			case *api.ClusterRole:
				if ref.Kind != "ClusterRole" {
					continue
				}
				rs = r.Rules
			}
			for i := range rs {
				if Matches(&rs[i], a) {
					return true
				}
			}
		}
	}
	return false
}

func (n *naive) is(id *Identity, s api.Subject) bool {
	switch s.Kind {
	case "User":
		return id.Name == s.Name
	case "Group":
		return slices.Contains(id.Groups, s.Name)
	}
	return id.Name == "system:serviceaccount:"+s.Namespace+":"+s.Name
}

// TestTheIndexDecidesAsANaiveWalkDoes: random roles and bindings come, change and go.
func TestTheIndexDecidesAsANaiveWalkDoes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(s string) string { l := split(s); return l[r.IntN(len(l))] }
	p, allowed := NewPolicy(), 0
	objects := map[string]api.Object{}
	for range 3000 {
		var o api.Object
		m := api.ObjectMeta{Name: pick("x,y,z"), Namespace: pick("a,b")}
		rs := rules(rule(pick("get,list,*,bind"), pick(",g,*"), pick("secrets,pods,*,*/status,pods/status")), rule(pick("get,list"), pick(",g"), pick("secrets,pods"), pick("n,m")), paths(pick("get,*"), pick("/m,/m/*,*")))
		ref := api.RoleRef{Kind: pick("Role,ClusterRole"), Name: pick("x,y,z")}
		subjects := []api.Subject{{Kind: "User", Name: pick("u,v")}, {Kind: "Group", Name: pick("p,q")}, {Kind: "ServiceAccount", Namespace: pick("a,b"), Name: pick("u,v")}}[:1+r.IntN(3)]
		switch r.IntN(4) {
		case 0:
			o = &api.Role{Metadata: m, Rules: rs}
		case 1:
			m.Namespace = ""
			o = &api.ClusterRole{Metadata: m, Rules: rs}
		case 2:
			o = &api.RoleBinding{Metadata: m, RoleRef: ref, Subjects: subjects}
		case 3:
			m.Namespace, ref.Kind = "", "ClusterRole"
			o = &api.ClusterRoleBinding{Metadata: m, RoleRef: ref, Subjects: subjects}
		}
		key := fmt.Sprintf("%T %s/%s", o, m.Namespace, m.Name)
		if r.IntN(3) == 0 {
			delete(objects, key)
			p.Delete(o)
		} else {
			objects[key] = o
			p.Put(o)
		}
		n := &naive{}
		for _, o := range objects {
			switch o.(type) {
			case *api.Role, *api.ClusterRole:
				n.roles = append(n.roles, o)
			default:
				n.bindings = append(n.bindings, o)
			}
		}
		id := NewPerson(pick("u,v"), pick("p,q,o"))
		if r.IntN(3) == 0 {
			id = NewServiceAccount(pick("a,b"), pick("u,v"), "1", nil)
		}
		a := Attributes{Verb: pick("get,list,bind,*"), Group: pick(",g"), Resource: pick("secrets,pods"), Subresource: pick(",,status"), Namespace: pick(",a,b"), Name: pick(",n,m,o")}
		if r.IntN(4) == 0 {
			a = Attributes{Verb: pick("get,post"), Path: pick("/m,/m/x,/n")}
		}
		want := n.allowed(&id, &a)
		d, err := p.Authorize(&id, &a)
		if err != nil || d.Allowed != want {
			t.Fatalf("seed %d: %+v asks for %+v: got %+v, %v; want %v of %+v", seed, id, a, d, err, want, objects)
		}
		if want {
			allowed++
		}
	}
	if allowed < 100 || allowed > 2900 {
		t.Errorf("seed %d: %d of 3000 were allowed: the test shows little", seed, allowed)
	}
}

// BenchmarkAuthorize decides for somebody of one binding and for a stranger, among 1,000 bindings.
func BenchmarkAuthorize(b *testing.B) {
	p := NewPolicy()
	p.Put(&api.ClusterRole{Metadata: api.ObjectMeta{Name: "r"}, Rules: rules(rule("get", "", "configmaps"), rule("get,list,watch", "fleet.drover.dev", "workloads"))})
	for i := range 1000 {
		bindTo(p, fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("b-%d", i), clusterRole("r"), api.Subject{Kind: "User", Name: fmt.Sprintf("user-%d", i)})
	}
	a := Attributes{Verb: "list", Group: "fleet.drover.dev", Resource: "workloads", Namespace: "ns-7"}
	for name, want := range map[string]bool{"user-7": true, "stranger": false} {
		id := NewPerson(name, "some", "groups")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, err := p.Authorize(&id, &a); err != nil || d.Allowed != want {
					b.Fatal(d, err)
				}
			}
		})
	}
}
