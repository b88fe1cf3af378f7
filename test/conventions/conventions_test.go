package conventions

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
)

// point is one thing that the conventions say, in our words, and how it is tried. It applies to kinds for which only is nil or true.
type point struct {
	section, says string
	only          func(*api.Kind) bool
	try           func(c *try) error
}

// try is one point on one kind. Its objects have names that nothing else in the house has.
type try struct {
	*house
	ctx  context.Context
	kind *api.Kind
	id   string
}

// sample is what the kind needs beside its metadata.
func sample(k *api.Kind) doc {
	template := doc{"spec": doc{"containers": []doc{{"name": "main", "image": "registry.example/x:1"}}}}
	switch k {
	case api.KindWorkload:
		return doc{"spec": doc{"placement": doc{"replicas": 1, "all": true}, "template": template}}
	case api.KindWorkloadRevision:
		return doc{"spec": doc{"workload": "w", "revision": 1, "hash": "abc", "template": template, "images": doc{"registry.example/x:1": "registry.example/x@sha256:" + strings.Repeat("ab", 32)}}}
	case api.KindAssignment:
		return doc{"spec": doc{"workload": "w", "revision": "w-1"}}
	case api.KindRollout:
		return doc{"spec": doc{"workload": "w", "to": "w-1"}}
	case api.KindEnrollmentRequest:
		return doc{"spec": doc{"device": "d", "fingerprint": "sha256:" + strings.Repeat("ab", 32), "token": "t", "csr": "AAAA"}}
	case api.KindTombstone:
		return doc{"spec": doc{"device": "d", "uid": "u", "namespace": "default", "name": "a", "workload": "w"}}
	case api.KindJoinToken:
		return doc{"spec": doc{"secretHash": "sha256:" + strings.Repeat("ab", 32)}}
	case api.KindDevicePool:
		return doc{"spec": doc{"all": true, "namespaces": []string{"default"}}}
	case api.KindResourceQuota:
		return doc{"spec": doc{"hard": doc{"count/configmaps": "100000"}}}
	case api.KindPriorityClass:
		return doc{"value": 1}
	case api.KindEvent:
		return doc{"involvedObject": doc{"kind": "Workload", "namespace": "default", "name": "w"}, "reason": "Tried", "type": "Normal"}
	case api.KindRole, api.KindClusterRole:
		return doc{"rules": []doc{{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"configmaps"}}}}
	case api.KindRoleBinding, api.KindClusterRoleBinding:
		return doc{"roleRef": doc{"apiGroup": api.RBACGroup, "kind": "ClusterRole", "name": "x"}}
	}
	return doc{}
}

// object is a whole object with a label that only this try's have.
func (c *try) object(name string) doc {
	o := sample(c.kind)
	meta := doc{"name": name, "labels": doc{"try": c.id}}
	if c.kind.Namespaced {
		meta["namespace"] = "default"
	}
	if device, uid, ok := strings.Cut(name, "."); ok && c.kind == api.KindTombstone { // which is named by them
		o["spec"] = doc{"device": device, "uid": uid, "namespace": "default", "name": "a", "workload": "w"}
	}
	o["apiVersion"], o["kind"], o["metadata"] = c.kind.APIVersion, c.kind.Kind, meta
	return o
}

func (c *try) collection() string {
	base := "/apis/" + c.kind.APIVersion
	if c.kind.APIVersion == api.CoreV1 {
		base = "/api/v1"
	}
	if c.kind.Namespaced {
		base += "/namespaces/default"
	}
	return base + "/" + c.kind.Plural
}

func (c *try) path(name string) string { return c.collection() + "/" + name }

// mine is the collection with a selector of this try's objects, and more of the query.
func (c *try) mine(query string) string {
	return c.collection() + "?labelSelector=try%3D" + c.id + query
}

func (c *try) name(i int) string {
	if c.kind == api.KindTombstone {
		return fmt.Sprintf("%s.%d", c.id, i)
	}
	return fmt.Sprintf("%s-%d", c.id, i)
}

// want makes a request that must be answered with the code.
func (c *try) want(code int, method, path string, body any, headers ...string) (reply, error) {
	r, err := c.do(c.ctx, method, path, body, headers...)
	if err == nil && r.code != code {
		err = fmt.Errorf("%s %s: got %d, want %d: %.600s", method, path, r.code, code, r.raw)
	}
	return r, err
}

// refused wants a Status of Kubernetes' shape with the code and reason.
func (c *try) refused(code int, reason, method, path string, body any, headers ...string) (reply, error) {
	r, err := c.want(code, method, path, body, headers...)
	if err != nil {
		return r, err
	}
	if r.body.at("kind") != "Status" || r.body.at("apiVersion") != "v1" || r.body.at("status") != "Failure" || r.body.at("reason") != reason ||
		r.body.at("code") != fmt.Sprint(code) || r.body.at("message") == "" {
		return r, fmt.Errorf("%s %s: got %s, want a Status with reason %s, code %d and a message", method, path, r.raw, reason, code)
	}
	return r, nil
}

func (c *try) create(i int) (doc, error) {
	r, err := c.want(http.StatusCreated, http.MethodPost, c.collection(), c.object(c.name(i)))
	return r.body, err
}

func same(what string, got, want any) error {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

func TestEveryKindKeepsTheConventions(t *testing.T) {
	h := startHouse(t)
	points, kinds := points(), api.Kinds()
	var table strings.Builder
	for n, p := range points {
		var kept, broken []string
		for _, k := range kinds {
			if p.only != nil && !p.only(k) {
				continue
			}
			c := &try{house: h, ctx: t.Context(), kind: k, id: fmt.Sprintf("t%d-%s", n, k.Singular)}
			if err := p.try(c); err != nil {
				broken = append(broken, k.Kind)
				t.Errorf("%s: %s: %s: %v", p.section, p.says, k.Kind, err)
				continue
			}
			kept = append(kept, k.Kind)
		}
		verdict := fmt.Sprintf("%2d of %2d", len(kept), len(kept)+len(broken))
		if len(broken) > 0 {
			verdict += " broken: " + strings.Join(broken, " ")
		}
		fmt.Fprintf(&table, "%-14s %-12s %s\n", p.section, verdict, p.says)
		if len(kept)+len(broken) == 0 {
			t.Errorf("%q was tried on no kind", p.says)
		}
	}
	t.Logf("%d points on %d kinds\n%s", len(points), len(kinds), table.String())
}

// The check must be able to fail: what is not so is found not to be so.
func TestAPointThatDoesNotHoldIsFound(t *testing.T) {
	c := &try{house: startHouse(t), ctx: t.Context(), kind: api.KindConfigMap, id: "fails"}
	if _, err := c.create(1); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"a second create succeeds": func() error { _, err := c.create(1); return err },
		"a refusal of another class": func() error {
			_, err := c.refused(http.StatusConflict, "Conflict", http.MethodPost, c.collection(), c.object(c.name(1)))
			return err
		},
		"another revision": func() error { return same("resourceVersion", "1", "2") },
	} {
		if try() == nil {
			t.Errorf("%s: not found to be wrong", what)
		}
	}
}
