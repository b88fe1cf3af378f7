package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

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
func workloadArg(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("name one workload")
	}
	kind, name, ok := strings.Cut(c.Args().First(), "/")
	if !ok {
		return kind, nil
	}
	k, err := kindNamed(kind)
	if err != nil {
		return "", err
	}
	if k != api.KindWorkload || name == "" {
		return "", usagef("%q is not a workload", c.Args().First())
	}
	return name, nil
}

func rolloutStatus(c *cli.Context) error {
	name, err := workloadArg(c)
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
	screen := newScreen(c.App.Writer)
	var last *progress
	err = follow(ctx, hub, c.App.ErrWriter, []source{
		{api.KindWorkload, client.WatchOptions{Namespace: hub.namespace, FieldSelector: "metadata.name=" + name}},
		{api.KindRollout, client.WatchOptions{Namespace: hub.namespace, FieldSelector: "spec.workload=" + name}},
	}, func(ctx context.Context) (bool, error) {
		p, err := progressOf(ctx, hub, hub.namespace, name)
		if err != nil {
			return false, err
		}
		last = p
		screen.show(p.lines(), p.line())
		return p.ended() || !c.Bool("watch"), nil
	})
	if err != nil {
		return timedOut(err, "rollout of "+name, timeout)
	}
	if !last.ended() {
		return nil
	}
	return last.verdict()
}

// progress is where the newest rollout of a workload stands.
type progress struct {
	workload *api.Workload
	rollout  *api.Rollout // nil until the revision's rollout exists
}

func progressOf(ctx context.Context, hub client.Client, namespace, name string) (*progress, error) {
	obj, err := hub.Get(ctx, api.Ref{Kind: api.KindWorkload, Namespace: namespace, Name: name}, client.GetOptions{})
	if err != nil {
		return nil, err
	}
	w := obj.(*api.Workload)
	p := &progress{workload: w}
	if w.Status.ObservedGeneration < w.Metadata.Generation {
		return p, nil // what the status says is about an earlier spec
	}
	list, err := hub.List(ctx, api.KindRollout, client.ListOptions{Namespace: namespace, FieldSelector: "spec.workload=" + name})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		r := o.(*api.Rollout)
		if r.Spec.To == w.Status.UpdatedRevision && (p.rollout == nil || newer(r, p.rollout)) {
			p.rollout = r
		}
	}
	return p, nil
}

// newer compares by creation; of two in one second the one created later in the store has the higher resource version at creation,
// which only grows, so that an unfinished one is the newer.
func newer(a, b *api.Rollout) bool {
	at, bt := a.Metadata.CreationTimestamp.Time, b.Metadata.CreationTimestamp.Time
	if !at.Equal(bt) {
		return at.After(bt)
	}
	return !finished(a.Status.Phase) && finished(b.Status.Phase)
}

func finished(phase string) bool {
	return phase == api.RolloutCompleted || phase == api.RolloutAborted || phase == api.RolloutFailed
}

func (p *progress) ended() bool {
	return p.rollout != nil && finished(p.rollout.Status.Phase)
}

func (p *progress) wave() api.WaveStatus {
	if p.rollout == nil || len(p.rollout.Status.Waves) == 0 {
		return api.WaveStatus{}
	}
	return p.rollout.Status.Waves[len(p.rollout.Status.Waves)-1]
}

func (p *progress) phase() (phase, cause string) {
	switch {
	case p.rollout != nil && p.rollout.Status.Phase != "":
		return p.rollout.Status.Phase, p.rollout.Status.Cause
	case p.rollout != nil:
		return api.RolloutPlanned, ""
	}
	if c := api.FindCondition(p.workload.Status.Conditions, "ImageResolved"); c != nil && c.Status == api.False {
		return api.RolloutWaiting, c.Message
	}
	return api.RolloutPlanned, "the hub has not made the revision yet"
}

// line is the state in one line, which changes only when something did.
func (p *progress) line() string {
	phase, cause := p.phase()
	w := p.wave()
	s := fmt.Sprintf("%s %s: %d/%d updated, %d reached, %d failed, %d pending-offline", p.workload.Metadata.Name, phase, w.Updated, w.Selected, w.Reached, w.Failed, w.PendingOffline)
	if cause != "" {
		s += "; " + cause
	}
	return s
}

// lines is the block that a terminal shows.
func (p *progress) lines() []string {
	phase, cause := p.phase()
	w := p.wave()
	const width = 30
	filled := 0
	if w.Selected > 0 {
		filled = int(w.Updated) * width / int(w.Selected)
	}
	out := []string{
		fmt.Sprintf("workload %s  revision %s  %s", p.workload.Metadata.Name, p.workload.Status.UpdatedRevision, phase),
		fmt.Sprintf("[%s%s] %d/%d updated", strings.Repeat("=", filled), strings.Repeat(" ", width-filled), w.Updated, w.Selected),
		fmt.Sprintf("reached %d   failed %d   pending-offline %d", w.Reached, w.Failed, w.PendingOffline),
	}
	if cause != "" {
		out = append(out, cause)
	}
	return out
}

// verdict is the exit code of a rollout that has ended.
func (p *progress) verdict() error {
	phase, cause := p.phase()
	w := p.wave()
	switch {
	case phase == api.RolloutFailed:
		return fault.WithExit(fault.ExitFailed, fmt.Errorf("rollout of %s failed: %s", p.workload.Metadata.Name, cause))
	case phase == api.RolloutAborted:
		return fault.WithExit(fault.ExitStopped, fmt.Errorf("rollout of %s was stopped: %s", p.workload.Metadata.Name, cause))
	case w.Failed > 0:
		return fault.WithExit(fault.ExitFailed, fmt.Errorf("%d of %d copies of %s failed", w.Failed, w.Selected, p.workload.Metadata.Name))
	case w.PendingOffline > 0:
		return fault.WithExit(fault.ExitPending, fmt.Errorf("done on every device that could be reached; %d will follow when they are back", w.PendingOffline))
	}
	return nil
}

// revisionsOf lists a workload's revisions, oldest first.
func revisionsOf(ctx context.Context, hub *connection, name string) (*api.Workload, []*api.WorkloadRevision, error) {
	obj, err := hub.Get(ctx, api.Ref{Kind: api.KindWorkload, Namespace: hub.namespace, Name: name}, client.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	list, err := hub.List(ctx, api.KindWorkloadRevision, client.ListOptions{Namespace: hub.namespace, FieldSelector: "spec.workload=" + name})
	if err != nil {
		return nil, nil, err
	}
	var revs []*api.WorkloadRevision
	for _, o := range list.Items {
		revs = append(revs, o.(*api.WorkloadRevision))
	}
	slices.SortFunc(revs, func(a, b *api.WorkloadRevision) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return obj.(*api.Workload), revs, nil
}

func rolloutUndo(c *cli.Context) error {
	name, err := workloadArg(c)
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	w, revs, err := revisionsOf(c.Context, hub, name)
	if err != nil {
		return err
	}
	target, err := undoTarget(w, revs, c.Int64("to-revision"))
	if err != nil {
		return err
	}
	next := api.Copy(w)
	next.Spec.Template = api.Copy(target).Spec.Template
	for i := range next.Spec.Template.Spec.Containers {
		// The old revision's digests, not what its tags mean today.
		ct := &next.Spec.Template.Spec.Containers[i]
		if digest, ok := target.Spec.Images[ct.Image]; ok {
			ct.Image = digest
		}
	}
	if _, err := hub.Update(c.Context, next, client.WriteOptions{FieldManager: "drover"}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "workload/%s goes back to revision %d (%s)\n", name, target.Spec.Revision, target.Metadata.Name)
	return err
}

// undoTarget is the wanted revision, or the newest one that is not what the workload declares now.
func undoTarget(w *api.Workload, revs []*api.WorkloadRevision, wanted int64) (*api.WorkloadRevision, error) {
	var kept []string
	for i := len(revs) - 1; i >= 0; i-- {
		r := revs[i]
		if wanted == r.Spec.Revision || wanted == 0 && r.Metadata.Name != w.Status.UpdatedRevision {
			return r, nil
		}
		kept = append(kept, strconv.FormatInt(r.Spec.Revision, 10))
	}
	if wanted == 0 {
		return nil, fmt.Errorf("workload/%s has no earlier revision to go back to", w.Metadata.Name)
	}
	return nil, fmt.Errorf("workload/%s has no revision %d; kept are %s", w.Metadata.Name, wanted, strings.Join(kept, ", "))
}

func rolloutHistory(c *cli.Context) error {
	name, err := workloadArg(c)
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
	w, revs, err := revisionsOf(c.Context, hub, name)
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

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// age is how long ago, in the largest unit that says enough.
func age(t api.Time, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t.Time)
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
