package access

import (
	"slices"
	"strings"
	"sync"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client/cache"
)

// Policy holds the roles and bindings that this member has seen, found by subject. It is fed by informers ([Policy.Follow]) or by Put and
// Delete, and safe for concurrent use.
type Policy struct {
	mu       sync.RWMutex
	roles    map[roleKey][]api.PolicyRule
	bindings map[bindingKey]*binding
	subjects map[subject][]*binding
	synced   []<-chan struct{} // closed once everything was read
}

type roleKey struct{ namespace, name string } // a ClusterRole has no namespace

type bindingKey struct{ namespace, name string } // a ClusterRoleBinding has no namespace

// subject is somebody as a binding names them: a user or a group. A service account is the user that it is.
type subject struct {
	group bool
	name  string
}

type binding struct {
	key      bindingKey
	role     roleKey
	subjects []subject
	text     []string // how messages name each subject
}

// NewPolicy is empty: it lets admins do everything and nobody else anything.
func NewPolicy() *Policy {
	return &Policy{roles: map[roleKey][]api.PolicyRule{}, bindings: map[bindingKey]*binding{}, subjects: map[subject][]*binding{}}
}

// Kinds are the kinds of which a Policy is made.
func Kinds() []*api.Kind {
	return []*api.Kind{api.KindRole, api.KindClusterRole, api.KindRoleBinding, api.KindClusterRoleBinding}
}

// Follow feeds the policy from informers, which must not run yet.
func (p *Policy) Follow(of func(*api.Kind) *cache.Informer) {
	for _, k := range Kinds() {
		i := of(k)
		i.AddHandler(func(c cache.Change) {
			if c.New == nil {
				p.Delete(c.Old)
			} else {
				p.Put(c.New)
			}
		})
		p.mu.Lock()
		p.synced = append(p.synced, i.Synced())
		p.mu.Unlock()
	}
}

// Synced reports whether everything that is followed was read once.
func (p *Policy) Synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, c := range p.synced {
		select {
		case <-c:
		default:
			return false
		}
	}
	return true
}

// Put takes a role or binding in as it stands now. It keeps parts of it, which must not be changed.
func (p *Policy) Put(obj api.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o := obj.(type) {
	case *api.Role:
		p.roles[roleKey{o.Metadata.Namespace, o.Metadata.Name}] = o.Rules
	case *api.ClusterRole:
		p.roles[roleKey{"", o.Metadata.Name}] = o.Rules
	case *api.RoleBinding:
		p.bindLocked(bindingKey{o.Metadata.Namespace, o.Metadata.Name}, o.RoleRef, o.Subjects)
	case *api.ClusterRoleBinding:
		p.bindLocked(bindingKey{"", o.Metadata.Name}, o.RoleRef, o.Subjects)
	}
}

// Delete forgets a role or binding.
func (p *Policy) Delete(obj api.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o := obj.(type) {
	case *api.Role:
		delete(p.roles, roleKey{o.Metadata.Namespace, o.Metadata.Name})
	case *api.ClusterRole:
		delete(p.roles, roleKey{"", o.Metadata.Name})
	case *api.RoleBinding:
		p.unbindLocked(bindingKey{o.Metadata.Namespace, o.Metadata.Name})
	case *api.ClusterRoleBinding:
		p.unbindLocked(bindingKey{"", o.Metadata.Name})
	}
}

func (p *Policy) bindLocked(key bindingKey, ref api.RoleRef, subjects []api.Subject) {
	p.unbindLocked(key)
	b := &binding{key: key}
	switch {
	case ref.Kind == api.KindClusterRole.Kind:
		b.role = roleKey{"", ref.Name}
	case ref.Kind == api.KindRole.Kind && key.namespace != "":
		b.role = roleKey{key.namespace, ref.Name}
	default:
		return // a binding of what is no role gives nothing
	}
	for _, s := range subjects {
		who, ok := subjectOf(s, key.namespace)
		if !ok || slices.Contains(b.subjects, who) {
			continue
		}
		b.subjects = append(b.subjects, who)
		b.text = append(b.text, describe(s, key.namespace))
		p.subjects[who] = append(p.subjects[who], b)
	}
	p.bindings[key] = b
}

// subjectOf: a service account without a namespace is of the binding's.
func subjectOf(s api.Subject, namespace string) (subject, bool) {
	switch s.Kind {
	case "User":
		return subject{false, s.Name}, s.Name != ""
	case "Group":
		return subject{true, s.Name}, s.Name != ""
	case api.KindServiceAccount.Kind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return subject{false, AccountName(namespace, s.Name)}, namespace != "" && s.Name != ""
	}
	return subject{}, false
}

func describe(s api.Subject, namespace string) string {
	if s.Kind != api.KindServiceAccount.Kind {
		return s.Kind + ` "` + s.Name + `"`
	}
	if s.Namespace != "" {
		namespace = s.Namespace
	}
	return s.Kind + ` "` + s.Name + "/" + namespace + `"`
}

func (p *Policy) unbindLocked(key bindingKey) {
	b := p.bindings[key]
	if b == nil {
		return
	}
	delete(p.bindings, key)
	for _, s := range b.subjects {
		if left := slices.DeleteFunc(p.subjects[s], func(o *binding) bool { return o == b }); len(left) > 0 {
			p.subjects[s] = left
		} else {
			delete(p.subjects, s)
		}
	}
}

// eachLocked visits the bindings that count for somebody in a namespace: the cluster's and that namespace's own.
func (p *Policy) eachLocked(id *Identity, namespace string, visit func(b *binding, rules []api.PolicyRule, whom string) (more bool)) {
	try := func(s subject) bool {
		for _, b := range p.subjects[s] {
			if b.key.namespace != "" && b.key.namespace != namespace {
				continue
			}
			rules, ok := p.roles[b.role]
			if ok && !visit(b, rules, b.text[slices.Index(b.subjects, s)]) {
				return false
			}
		}
		return true
	}
	if !try(subject{false, id.Name}) {
		return
	}
	for _, g := range id.Groups {
		if !try(subject{true, g}) {
			return
		}
	}
}

// why names the binding that gives a right, in Kubernetes' words.
func (b *binding) why(whom string) string {
	var s strings.Builder
	s.WriteString("RBAC: allowed by ")
	if b.key.namespace == "" {
		s.WriteString(`ClusterRoleBinding "` + b.key.name)
	} else {
		s.WriteString(`RoleBinding "` + b.key.name + "/" + b.key.namespace)
	}
	if b.role.namespace == "" {
		s.WriteString(`" of ClusterRole "`)
	} else {
		s.WriteString(`" of Role "`)
	}
	s.WriteString(b.role.name + `" to ` + whom)
	return s.String()
}
