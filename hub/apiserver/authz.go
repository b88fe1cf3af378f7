package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/access"
)

// authorize says whether a request may be served, as far as its path and method tell. What a body decides is judged by the handler:
// each item of a transaction, the object that why is asked about, what a review may ask.
func (x *exchange) authorize() error {
	u, rt := &x.user, x.route
	switch {
	case rt.public():
		return nil
	case u.Kind == access.Member && (rt.forMembers() || rt.kind == routeNone): // a newer member hears that this one lacks a path
		return nil
	case u.Kind == access.Device:
		return fault.Forbidden.Errorf("device %q may not use the operators' API: a device reaches its own objects only, by its link", u.Name)
	case rt.kind == routeTransactions || rt.kind == routeWhy:
		return x.authenticated()
	}
	a := x.attributes()
	return x.s.allow(&u.Identity, &a)
}

// authenticated is enough where the handler judges what is asked for.
func (x *exchange) authenticated() error {
	switch x.user.Kind {
	case access.Person, access.ServiceAccount:
		return nil
	case access.Member:
		return fault.Forbidden.Errorf("member %q of the hub may not use %s in its own name", x.user.Name, x.route.path)
	}
	return unauthenticated()
}

func unauthenticated() error {
	return fault.Unauthorized.Errorf("no client certificate and no token: use the kubeconfig that drover-hub --init wrote (admin.kubeconfig) or that drover auth add-user made, or a service account's token")
}

// allow asks the roles. A member has no rights of its own beside what authorize lets it do.
func (s *Server) allow(id *access.Identity, a *access.Attributes) error {
	d, err := s.cfg.Access.Authorize(id, a)
	switch {
	case err != nil:
		return err
	case d.Allowed:
		return nil
	case id.Kind == access.Nobody && id.Name != "":
		return unauthenticated()
	}
	return access.Forbidden(id, a, "")
}

// may is allow for the one who asks.
func (x *exchange) may(a access.Attributes) error { return x.s.allow(&x.user.Identity, &a) }

// attributes are what a request asks for, by its path and method. As in Kubernetes the name is the path's, or for a list or watch the
// one that the field selector fixes; a create has none.
func (x *exchange) attributes() access.Attributes {
	rt := x.route
	if rt.review != nil {
		return rt.review.attributes(rt.ref.Namespace)
	}
	if rt.ref.Kind == nil {
		return access.Attributes{Verb: methodVerb(x.r), Path: rt.path}
	}
	a := on(rt.ref, rt.verb, rt.sub)
	if a.Name == "" && (rt.verb == "list" || rt.verb == "watch") {
		a.Name = fixedName(x.r.URL.Query().Get("fieldSelector"))
	}
	return a
}

func methodVerb(r *http.Request) string { return strings.ToLower(r.Method) }

// on are the attributes of a verb on an object. A namespace lies in itself, so that a role in it can cover it.
func on(ref api.Ref, verb, sub string) access.Attributes {
	a := access.Attributes{Verb: verb, Group: ref.Kind.Group(), Resource: ref.Kind.Plural, Subresource: sub, Namespace: ref.Namespace, Name: ref.Name}
	if ref.Kind == api.KindNamespace {
		a.Namespace = ref.Name
	}
	return a
}

// fixedName is the name that a field selector demands; "" where it leaves it open.
func fixedName(selector string) string {
	for term := range strings.SplitSeq(selector, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(term), "=")
		value = strings.TrimPrefix(value, "=")
		if ok && key == "metadata.name" && value != "" && !strings.ContainsAny(value, `\=`) {
			return value
		}
	}
	return ""
}

// authorizeItem judges one item of a transaction by what it would be as a request of its own: an apply is a patch, and by admission also a
// create where it makes something.
func (x *exchange) authorizeItem(verb client.Verb, obj api.Object) error {
	ref, ok := api.RefOf(obj)
	if !ok {
		return fault.BadRequest.Errorf("%T is of no kind of the API", obj)
	}
	switch verb {
	case client.TxApply:
		return x.may(on(ref, "patch", ""))
	case client.TxCreate:
		ref.Name = ""
		return x.may(on(ref, "create", ""))
	case client.TxStatus:
		return x.may(on(ref, "update", "status"))
	}
	return x.may(on(ref, string(verb), "")) // update and delete; the registry refuses whatever else
}

// authorizeItems judges all items, and what the transaction rests on: whether something is as it was is told to those who may get it.
func (x *exchange) authorizeItems(tx *client.Transaction) error {
	for i, item := range tx.Items {
		if err := x.authorizeItem(item.Verb, item.Object); err != nil {
			return placed(err, fmt.Sprintf("items[%d]", i))
		}
	}
	for i, pre := range tx.If {
		a := on(pre.Ref, "get", "")
		if pre.Selection != nil {
			a = on(api.Ref{Kind: pre.Ref.Kind, Namespace: pre.Ref.Namespace}, "list", "")
		}
		if err := x.may(a); err != nil {
			return placed(err, fmt.Sprintf("preconditions[%d]", i))
		}
	}
	return nil
}

// placed adds where in the body it was.
func placed(err error, where string) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	at := *e
	at.Message = where + ": " + e.Message
	return &at
}

// answers gives what each item of a transaction came to, as its maker may see it: whole where it was made by this very write.
func (x *exchange) answers(tx *client.Transaction, results []client.TxResult) ([]api.Object, error) {
	out := make([]api.Object, len(results))
	for i, res := range results {
		out[i] = res.Object
		if tx.Items[i].Verb == client.TxCreate && !x.repeated {
			continue
		}
		ref, ok := api.RefOf(res.Object)
		if !ok {
			return nil, fault.Internal.Errorf("items[%d] came to a %T", i, res.Object)
		}
		obj, err := x.shown(ref, res.Object)
		if err != nil {
			return nil, err
		}
		out[i] = obj
	}
	return out, nil
}

// shown is what a write answers with: the object for those who may get it, else only what names it. So a right to write is no way to
// read.
func (x *exchange) shown(ref api.Ref, obj api.Object) (api.Object, error) {
	if ref.Kind == nil {
		return obj, nil
	}
	a := on(ref, "get", "")
	d, err := x.s.cfg.Access.Authorize(&x.user.Identity, &a)
	if err != nil || d.Allowed {
		return obj, err
	}
	bare := ref.Kind.New()
	m := obj.Meta()
	*bare.Type() = *obj.Type()
	*bare.Meta() = api.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp}
	return bare, nil
}
