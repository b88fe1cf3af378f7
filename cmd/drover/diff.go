package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "show what apply would change, and which declared fields others changed meanwhile",
		Flags: append(setFlags(),
			&cli.BoolFlag{Name: "detailed-exitcode", Usage: "exit 3 when there are differences, or fields that others changed"},
		),
		Action: diffSet,
	}
}

func diffSet(c *cli.Context) error {
	s, err := setOf(c)
	if err != nil {
		return err
	}
	plan, contested, err := s.planOver(c.Context)
	if err != nil {
		return err
	}
	if contested != nil {
		tellContested(c.App.ErrWriter, contested)
	}
	stands, err := plan.stands(c.Context)
	if err != nil {
		return err
	}
	differs := contested != nil
	for i, r := range plan.results {
		text, err := plan.difference(i, stands)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(c.App.Writer, text); err != nil {
			return err
		}
		drift := drifted(r.Object, stands[keyed(r.Object)], s.manager)
		for _, line := range drift {
			fmt.Fprintln(c.App.ErrWriter, line)
		}
		differs = differs || text != "" || len(drift) > 0
	}
	fmt.Fprintln(c.App.ErrWriter, plan.summary())
	if differs && c.Bool("detailed-exitcode") {
		return fault.WithExit(fault.ExitPending, errors.New("there are differences"))
	}
	return nil
}

// tellContested says whose fields apply would stumble over, without what is true of an apply alone.
func tellContested(w io.Writer, contested error) {
	var r *refusal
	if !errors.As(contested, &r) {
		fmt.Fprintf(w, "apply would be refused without --force: %s\n", plain(contested.Error()))
		return
	}
	fmt.Fprintf(w, "apply would be refused without --force, because of %s:\n", r.of)
	for _, line := range r.lines {
		fmt.Fprintln(w, plain(line))
	}
}

// planOver plans as apply does, and where fields of others stand in the way as apply --force does; then contested says so.
func (s *set) planOver(ctx context.Context) (plan *setPlan, contested, err error) {
	plan, err = s.plan(ctx)
	if !fault.Is(err, fault.Conflict) && fault.ExitCode(err) != fault.ExitConflict || client.PlanMoved(err) {
		return plan, nil, err
	}
	contested = err
	s.force = true
	plan, err = s.plan(ctx)
	return plan, contested, err
}

func keyed(o api.Object) api.Ref {
	ref, _ := api.RefOf(o)
	return ref
}

// manyOfAKind is from how many objects of one kind and namespace on all of them are listed instead of asked for one by one.
const manyOfAKind = 8

// stands reads what the plan changes, as it is.
func (p *setPlan) stands(ctx context.Context) (map[api.Ref]api.Object, error) {
	out := map[api.Ref]api.Object{}
	groups := map[api.Ref][]api.Ref{} // by kind and namespace
	for i, r := range p.results {
		ref := keyed(r.Object)
		if p.action(i) == "created" {
			continue
		}
		group := api.Ref{Kind: ref.Kind, Namespace: ref.Namespace}
		groups[group] = append(groups[group], ref)
	}
	for group, refs := range groups {
		if len(refs) >= manyOfAKind {
			list, err := listAll(ctx, p.set.hub, group.Kind, client.ListOptions{Namespace: group.Namespace})
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				out[keyed(o)] = o
			}
			continue
		}
		for _, ref := range refs {
			o, err := p.set.hub.Get(ctx, ref, client.GetOptions{})
			if fault.Is(err, fault.NotFound) {
				continue // deleted since the plan
			}
			if err != nil {
				return nil, err
			}
			out[ref] = o
		}
	}
	return out, nil
}

// difference is what the plan changes of its i-th object.
func (p *setPlan) difference(i int, stands map[api.Ref]api.Object) (string, error) {
	after := p.results[i].Object
	before := stands[keyed(after)]
	name := refOf(after)
	if ns := after.Meta().Namespace; ns != "" {
		name = ns + "/" + name
	}
	nameA, nameB := name+" (stands)", name+" (applied)"
	if p.action(i) == actionPruned {
		after, nameB = nil, "/dev/null"
	}
	if before == nil {
		nameA = "/dev/null"
	}
	before, after = hideSecrets(before, after)
	a, err := declared(before)
	if err != nil {
		return "", err
	}
	b, err := declared(after)
	if err != nil {
		return "", err
	}
	return unified(nameA, nameB, a, b), nil
}

// declared is the part of an object that people write, as YAML; "" of none.
func declared(o api.Object) (string, error) {
	if o == nil || reflect.ValueOf(o).IsNil() {
		return "", nil
	}
	o = o.DeepCopyObject()
	m := o.Meta()
	m.ResourceVersion, m.UID, m.Generation, m.CreationTimestamp, m.ManagedFields = "", "", 0, api.Time{}, nil
	delete(m.Annotations, api.AnnotationContended)
	if st := reflect.ValueOf(o).Elem().FieldByName("Status"); st.IsValid() {
		st.SetZero()
	}
	b, err := api.EncodeYAML(o)
	return string(b), err
}

// hideSecrets replaces values by words from which one sees that they differ, and nothing else.
func hideSecrets(before, after api.Object) (hiddenBefore, hiddenAfter api.Object) {
	a, _ := before.(*api.Secret)
	b, _ := after.(*api.Secret)
	hide := func(s, other *api.Secret, word string) api.Object {
		s = api.Copy(s)
		shown := map[string]string{}
		for k, v := range s.Data {
			shown[k] = "(hidden)"
			if other != nil {
				if was, ok := other.Data[k]; ok && string(was) != string(v) {
					shown[k] = "(hidden, " + word + ")"
				}
			}
		}
		for k := range s.StringData {
			shown[k] = "(hidden)"
		}
		s.Data, s.StringData = nil, shown
		return s
	}
	if a != nil {
		before = hide(a, b, "before")
	}
	if b != nil {
		after = hide(b, a, "after")
	}
	return before, after
}

// drifted says which fields that this manager, or another, declared were changed since.
func drifted(after, stands api.Object, manager string) []string {
	if stands == nil {
		return nil
	}
	var out []string
	for _, f := range api.ContendedFields(stands) {
		whose := fmt.Sprintf("declared by %q", f.DeclaredBy)
		if f.DeclaredBy == manager {
			whose = "declared by this manager"
		}
		out = append(out, plain(strings.Join([]string{"drift: ", refOf(after), " ", f.Field, " was ", whose, fmt.Sprintf(" and changed by %q after resourceVersion %s", f.ChangedBy, f.After)}, "")))
	}
	return out
}
