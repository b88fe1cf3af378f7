package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// set is what apply and diff are about: manifests, and what of theirs is to go because they no longer name it.
type set struct {
	hub      *connection
	items    []api.Item
	manager  string
	force    bool
	prune    bool
	selector string // of what may be pruned
}

// setPlan is a set worked out by the hub without being written, and what it rests on.
type setPlan struct {
	set     *set
	results []client.TxResult // of the items, then of what is pruned
	pruned  []api.Object
	ifs     []client.Precondition
	touched touched
}

// actionPruned is what is said of a deletion by --prune.
const actionPruned = "pruned"

func setFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "`FILE`, folder (its .yaml, .yml and .json files), or - for standard input; may be repeated"},
		&cli.StringFlag{Name: "field-manager", Value: "drover", Usage: "owner `NAME` of the fields"},
		&cli.BoolFlag{Name: "prune", Usage: "delete what this manager applied, --selector selects, and the manifests no longer hold"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "with --prune: labels of the set, `k=v,...`, which every object of it carries"},
	}
}

// setOf reads the command line and every file before anything is sent.
func setOf(c *cli.Context) (*set, error) {
	s := &set{manager: c.String("field-manager"), prune: c.Bool("prune"), selector: c.String("selector")}
	switch {
	case c.Args().Present():
		return nil, usagef("%s takes no arguments, not %q; name files with -f", c.Command.Name, c.Args().First())
	case s.prune && s.selector == "":
		return nil, usagef("--prune needs --selector (-l): the labels that tell the set from everything else")
	case !s.prune && s.selector != "":
		return nil, usagef("--selector says what --prune may delete; give both or neither")
	}
	var err error
	if s.items, err = readManifests(c.App.Reader, c.StringSlice("filename")); err != nil {
		return nil, err
	}
	if s.hub, err = connect(c); err != nil {
		return nil, err
	}
	if err := s.hub.setNamespaces(s.items); err != nil {
		return nil, err
	}
	return s, errors.Join(s.checkSize(), s.checkLabels())
}

// checkSize refuses what the hub would, before anything is sent.
func (s *set) checkSize() error {
	if n := len(s.items); n > client.MaxItems {
		return fault.TooLarge.Errorf("the set has %d objects, and at most %d are applied at once; apply it in parts", n, client.MaxItems)
	}
	total := int64(0)
	for _, it := range s.items {
		b, err := api.Encode(it.Object)
		if err != nil {
			return err
		}
		if len(b) > api.MaxObject {
			return fault.SizeLimit(fmt.Sprintf("%s:%d: %s", it.File, it.Line, refOf(it.Object)), int64(len(b)), api.MaxObject)
		}
		total += int64(len(b))
	}
	if total > api.MaxTransaction {
		return fault.SizeLimit(fmt.Sprintf("the set of %d objects", len(s.items)), total, api.MaxTransaction)
	}
	return nil
}

// checkLabels demands that a later --prune would find what is applied now.
func (s *set) checkLabels() error {
	if !s.prune {
		return nil
	}
	sel, err := api.ParseSelector(s.selector)
	if err != nil {
		return usagef("--selector: %v", err)
	}
	var errs []error
	for _, it := range s.items {
		k, _ := api.KindFor(it.Object)
		if prunable(k) && !sel.Matches(it.Object.Meta().Labels) {
			errs = append(errs, fmt.Errorf("%s:%d: %s does not carry the labels %s, so no later --prune would find it", it.File, it.Line, refOf(it.Object), s.selector))
		}
	}
	if len(errs) > 0 {
		return nothingDone(errs...)
	}
	return nil
}

// plan has the hub work the set out on what stands now, and notes what the answer rests on. Where others write while it looks, it looks again.
func (s *set) plan(ctx context.Context) (*setPlan, error) {
	for try := 1; ; try++ {
		p, err := s.planOnce(ctx)
		if err == nil || !client.PlanMoved(err) || try == maxPlans {
			return p, err
		}
	}
}

func (s *set) planOnce(ctx context.Context) (*setPlan, error) {
	p := &setPlan{set: s}
	if s.prune {
		if err := p.findPruned(ctx); err != nil {
			return nil, err
		}
	}
	tx := p.transaction()
	tx.DryRun, tx.If = true, slices.Clone(p.ifs)
	var err error
	if p.results, err = s.hub.Transact(ctx, tx); client.PlanMoved(err) {
		return nil, err
	} else if err != nil {
		return nil, atManifest(err, s.items)
	}
	for i := range s.items {
		p.rest(p.results[i])
	}
	p.touched, err = p.touch(ctx)
	return p, err
}

// rest adds that an item's object is as the plan found it.
func (p *setPlan) rest(r client.TxResult) {
	ref, ok := api.RefOf(r.Object)
	if !ok {
		return
	}
	p.ifs = append(p.ifs, client.Precondition{Ref: ref, ResourceVersion: r.Object.Meta().ResourceVersion})
}

func (p *setPlan) transaction() client.Transaction {
	tx := client.Transaction{FieldManager: p.set.manager, Force: p.set.force, If: p.ifs}
	for _, it := range p.set.items {
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxApply, Object: it.Object})
	}
	for _, o := range p.pruned {
		k, _ := api.KindFor(o)
		gone := k.New()
		*gone.Type() = api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind}
		*gone.Meta() = api.ObjectMeta{Name: o.Meta().Name, Namespace: o.Meta().Namespace, UID: o.Meta().UID}
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxDelete, Object: gone})
	}
	return tx
}

// carryOut does what was planned, all of it, on exactly the ground that the plan was made on.
func (p *setPlan) carryOut(ctx context.Context) ([]client.TxResult, error) {
	results, err := p.set.hub.Transact(ctx, p.transaction())
	if err != nil && !client.PlanMoved(err) {
		err = atManifest(err, p.set.items)
	}
	return results, err
}

// action is what the plan does to its i-th object.
func (p *setPlan) action(i int) string {
	if i >= len(p.set.items) {
		return actionPruned
	}
	return p.results[i].Action
}

// steps are what the plan does, by object.
func (p *setPlan) steps() map[api.Ref]string {
	out := make(map[api.Ref]string, len(p.results))
	for i, r := range p.results {
		if ref, ok := api.RefOf(r.Object); ok {
			out[ref] = p.action(i)
		}
	}
	return out
}

// grown says what a plan does that the one agreed to did not.
func (p *setPlan) grown(agreed *setPlan) []string {
	var out []string
	before := agreed.steps()
	for i, r := range p.results {
		ref, _ := api.RefOf(r.Object)
		if a := p.action(i); a != "unchanged" && before[ref] != a {
			out = append(out, fmt.Sprintf("%s %s", refOf(r.Object), a))
		}
	}
	if n, was := p.touched.count(), agreed.touched.count(); n > was {
		out = append(out, fmt.Sprintf("%s touched instead of %d", devices(n), was))
	}
	return out
}

// summary is the plan in one line.
func (p *setPlan) summary() string {
	n := map[string]int{}
	for i := range p.results {
		n[p.action(i)]++
	}
	line := fmt.Sprintf("plan: %d created, %d configured, %d unchanged", n["created"], n["configured"], n["unchanged"])
	if p.set.prune {
		line += fmt.Sprintf(", %d pruned", n[actionPruned])
	}
	return line + "; " + p.touched.summary()
}
