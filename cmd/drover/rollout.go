package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
)

// undoManager owns the fields that an undo writes.
const undoManager = "drover"

func rolloutCommand() *cli.Command {
	return &cli.Command{
		Name: "rollout", Usage: "follow a workload's move to a revision, or go back",
		Subcommands: []*cli.Command{
			{
				Name: "status", Usage: "follow the newest rollout to its end", ArgsUsage: "WORKLOAD",
				Flags: []cli.Flag{
					&cli.DurationFlag{Name: "timeout", Usage: "give up following after `DURATION` (exit code 4); 0 = never"},
					&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Value: true, Usage: "follow; --watch=false prints once"},
				},
				Action: rolloutStatus,
			},
			{
				Name: "undo", Usage: "declare an earlier revision's template again", ArgsUsage: "WORKLOAD",
				Flags:  []cli.Flag{&cli.Int64Flag{Name: "to-revision", Usage: "revision `NUMBER` (default: the one before)"}},
				Action: rolloutUndo,
			},
			{
				Name: "history", Usage: "list the kept revisions", ArgsUsage: "WORKLOAD",
				Flags:  []cli.Flag{outputFlag("json", "yaml", "name")},
				Action: rolloutHistory,
			},
		},
	}
}

// workloadArg reads "NAME" or "workload/NAME".
func workloadArg(c *cli.Context) (api.Ref, error) {
	if c.NArg() != 1 {
		return api.Ref{}, usagef("name one workload")
	}
	arg := c.Args().First()
	if !strings.Contains(arg, "/") {
		arg = "workload/" + arg
	}
	k, list, err := refs([]string{arg})
	if err != nil {
		return api.Ref{}, err
	}
	if k != api.KindWorkload {
		return api.Ref{}, usagef("%q is not a workload", c.Args().First())
	}
	return list[0], nil
}

func rolloutStatus(c *cli.Context) error {
	ref, err := workloadArg(c)
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	ctx, timeout := c.Context, c.Duration("timeout")
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	ref = hub.place([]api.Ref{ref})[0]
	last, err := followRollout(ctx, hub, ref, newScreen(c.App.Writer), c.App.ErrWriter, !c.Bool("watch"))
	switch {
	case err != nil:
		return timedOut(err, "rollout of "+ref.Name, timeout)
	case !last.ended():
		return nil
	}
	return last.verdict()
}

// followRollout shows the newest rollout of a workload until it ends. The one that is seen first is followed to its own end, though a
// newer one may begin: what became of it is the answer.
func followRollout(ctx context.Context, hub client.Client, r api.Ref, s *screen, notes io.Writer, once bool) (*progress, error) {
	var last *progress
	followed := ""
	err := follow(ctx, hub, notes, []source{
		{api.KindWorkload, client.WatchOptions{Namespace: r.Namespace, FieldSelector: "metadata.name=" + r.Name}},
		{api.KindRollout, client.WatchOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name}},
	}, func(ctx context.Context) (bool, error) {
		p, err := progressOf(ctx, hub, r)
		if err != nil {
			return false, err
		}
		p.stayWith(followed)
		if p.rollout != nil {
			followed = p.rollout.Metadata.UID
		}
		last = p
		s.show(p.lines(), p.about(), p.line())
		return p.ended() || once, nil
	})
	return last, err
}

// revisionsOf lists a workload's revisions, oldest first.
func revisionsOf(ctx context.Context, hub client.Client, r api.Ref) ([]*api.WorkloadRevision, error) {
	list, err := listAll(ctx, hub, api.KindWorkloadRevision, client.ListOptions{Namespace: r.Namespace, FieldSelector: "spec.workload=" + r.Name})
	if err != nil {
		return nil, err
	}
	var revs []*api.WorkloadRevision
	for _, o := range list {
		revs = append(revs, o.(*api.WorkloadRevision))
	}
	slices.SortFunc(revs, func(a, b *api.WorkloadRevision) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return revs, nil
}

func rolloutUndo(c *cli.Context) error {
	ref, err := workloadArg(c)
	if err != nil {
		return err
	}
	if c.IsSet("to-revision") && c.Int64("to-revision") < 1 {
		return usagef("--to-revision takes a number from 1 up, not %d", c.Int64("to-revision"))
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	ref = hub.place([]api.Ref{ref})[0]
	var target *api.WorkloadRevision
	changed, err := change(c.Context, hub, ref, undoManager, func(w *api.Workload) (bool, error) {
		revs, err := revisionsOf(c.Context, hub, ref)
		if err != nil {
			return false, err
		}
		if target, err = undoTarget(w, revs, c.Int64("to-revision")); err != nil {
			return false, err
		}
		was := api.Copy(w).Spec.Template
		w.Spec.Template = templateOf(target)
		return !reflect.DeepEqual(was, w.Spec.Template), nil
	})
	if err != nil {
		return err
	}
	say := "%s goes back to revision %d (%s), which becomes the newest; drover rollout status follows it\n"
	if !changed {
		say = "%s already declares revision %d (%s)\n"
	}
	_, err = fmt.Fprintf(c.App.Writer, say, title(ref), target.Spec.Revision, target.Metadata.Name)
	return err
}

// templateOf is the revision's template with the digests that it ran, not with what its tags mean today.
func templateOf(r *api.WorkloadRevision) api.Template {
	t := api.Copy(r).Spec.Template
	for i := range t.Spec.Containers {
		ct := &t.Spec.Containers[i]
		if digest, ok := r.Spec.Images[ct.Image]; ok {
			ct.Image = digest
		}
	}
	return t
}

// undoTarget is the wanted revision, or (0) the newest one that is not what the workload declares now. A declaration that has not
// become a revision yet, because its image cannot be found for one, is undone by the newest revision there is.
func undoTarget(w *api.Workload, revs []*api.WorkloadRevision, wanted int64) (*api.WorkloadRevision, error) {
	var kept []string
	for _, r := range slices.Backward(revs) {
		if wanted == r.Spec.Revision || wanted == 0 && (r.Metadata.Name != w.Status.UpdatedRevision || !judged(w)) {
			return r, nil
		}
		kept = append(kept, strconv.FormatInt(r.Spec.Revision, 10))
	}
	if wanted == 0 {
		return nil, fmt.Errorf("%s has no earlier revision to go back to", refOf(w))
	}
	return nil, fmt.Errorf("%s has no revision %d; kept are %s", refOf(w), wanted, cmp.Or(strings.Join(kept, ", "), "none"))
}

func rolloutHistory(c *cli.Context) error {
	ref, err := workloadArg(c)
	if err != nil {
		return err
	}
	output, err := outputOf(c, "json", "yaml", "name")
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	ref = hub.place([]api.Ref{ref})[0]
	obj, err := hub.Get(c.Context, ref, client.GetOptions{})
	if err != nil {
		return err
	}
	w := obj.(*api.Workload)
	revs, err := revisionsOf(c.Context, hub, ref)
	if err != nil {
		return err
	}
	if output != "" {
		objects := make([]api.Object, len(revs))
		for i, r := range revs {
			objects[i] = r
		}
		return printObjects(c.App.Writer, output, objects)
	}
	tw := tabwriter.NewWriter(c.App.Writer, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "REVISION\tNAME\tSTATE\tIMAGES\tAGE")
	for _, r := range revs {
		var state []string
		if r.Metadata.Name == w.Status.UpdatedRevision {
			state = append(state, "declared")
		}
		if r.Metadata.Name == w.Status.CurrentRevision {
			state = append(state, "current")
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\n", r.Spec.Revision, r.Metadata.Name, dash(strings.Join(state, ",")), imagesOf(r), age(r.Metadata.CreationTimestamp, time.Now()))
	}
	return tw.Flush()
}

func imagesOf(r *api.WorkloadRevision) string {
	var names []string
	for _, ct := range r.Spec.Template.Spec.Containers {
		names = append(names, ct.Image)
	}
	return strings.Join(names, ",")
}
