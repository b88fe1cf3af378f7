package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

func applyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Usage: "make the hub hold what the manifests declare, all of them or none",
		Flags: append(setFlags(),
			&cli.BoolFlag{Name: "dry-run", Usage: "let the hub check everything, show the plan and write nothing"},
			&cli.BoolFlag{Name: "force", Usage: "take fields over that another manager owns"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "ask nothing, and go on where the plan grew meanwhile"},
			&cli.IntFlag{Name: "confirm", Value: -1, Usage: "go on with pruning `N` objects although that is much; N is the number that the plan shows", DefaultText: "refuse"},
			outputFlag("name", "json", "yaml"),
		),
		Action: apply,
	}
}

// maxPlans bounds how often a set is planned anew because others write the same objects.
const maxPlans = 20

func apply(c *cli.Context) error {
	output, err := outputOf(c, "name", "json", "yaml")
	if err != nil {
		return err
	}
	s, err := setOf(c)
	if err != nil {
		return err
	}
	s.force = c.Bool("force")
	plan, err := s.plan(c.Context)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.App.ErrWriter, plan.summary())
	if c.Bool("dry-run") {
		return printApplied(c, output, plan, plan.results, true)
	}
	plan, results, err := s.apply(c.Context, plan, consentOf(c))
	if err != nil {
		return err
	}
	return printApplied(c, output, plan, results, false)
}

// apply carries the plan out once it is agreed to, and plans anew where others were quicker. The plan returned is the one that was done.
func (s *set) apply(ctx context.Context, plan *setPlan, q *consent) (*setPlan, []client.TxResult, error) {
	if err := q.begin(plan); err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		results, err := plan.carryOut(ctx)
		if err == nil || !client.PlanMoved(err) || try == maxPlans {
			return plan, results, err
		}
		next, err := s.plan(ctx)
		if err != nil {
			return nil, nil, err
		}
		if err := q.again(plan, next); err != nil {
			return nil, nil, err
		}
		plan = next
	}
}

func printApplied(c *cli.Context, output string, plan *setPlan, results []client.TxResult, dry bool) error {
	if output == "json" || output == "yaml" {
		objects := make([]api.Object, len(results))
		for i, r := range results {
			objects[i] = r.Object
		}
		return printObjects(c.App.Writer, output, objects)
	}
	for i, r := range results {
		line := refOf(r.Object)
		if output != "name" {
			line += " " + r.Action
			if i >= len(plan.set.items) {
				line = refOf(r.Object) + " " + actionPruned
			}
			if on := plan.touched.of(i); on != "" {
				line += ", " + on
			}
			if dry {
				line += " (dry run)"
			}
		}
		if _, err := fmt.Fprintln(c.App.Writer, line); err != nil {
			return err
		}
	}
	return nil
}

// setNamespaces fills the namespace in where the kind has one and the manifest does not. Two manifests may turn out to speak of one
// object only then.
func (c *connection) setNamespaces(items []api.Item) error {
	for _, it := range items {
		if k, ok := api.KindFor(it.Object); ok && k.Namespaced && it.Object.Meta().Namespace == "" {
			it.Object.Meta().Namespace = c.namespace
		}
	}
	if errs := api.CheckDuplicates(items); len(errs) > 0 {
		return nothingDone(errs)
	}
	return nil
}

func nothingDone(errs ...error) error {
	return fault.Invalid.Errorf("nothing was done:\n%w", errors.Join(errs...))
}

// atManifest adds where in the manifests the fields stand that the hub refuses: its rules know more than the files do, such as which
// images there are. An error that names no field of an object of the set stays as it is.
func atManifest(err error, items []api.Item) error {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Details.Causes) == 0 {
		return err
	}
	var meant []api.Item
	for _, it := range items {
		k, _ := api.KindFor(it.Object)
		if it.Object.Meta().Name == f.Details.Name && (f.Details.Kind == k.Kind || f.Details.Kind == k.Plural) {
			meant = append(meant, it)
		}
	}
	if len(meant) != 1 { // none, or objects of one name in several namespaces
		return err
	}
	out := &refusal{of: refOf(meant[0].Object), conflict: f.Class == fault.Conflict}
	for _, cause := range f.Details.Causes {
		line, col := meant[0].Place(cause.Field)
		at := fmt.Sprintf("%s:%d:%d: ", meant[0].File, line, col)
		if cause.Field != "" { // else the whole object is meant
			at += cause.Field + ": "
		}
		out.lines = append(out.lines, at+cause.Message)
	}
	return fault.WithExit(fault.ExitCode(err), out)
}

// refusal is what the hub has against an object of the set, by the places in its manifest.
type refusal struct {
	of       string
	lines    []string
	conflict bool // with other managers
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the hub refuses %s; nothing was done:\n%s", r.of, strings.Join(r.lines, "\n"))
	if r.conflict {
		text += "\n--force takes the fields over"
	}
	return text
}

// maxManifests bounds the files of a set in bytes. Comments and indentation count here; what the hub takes is api.MaxTransaction.
const maxManifests = 4 * api.MaxTransaction

// readManifests reads every file before anything is sent, and reports what is wrong in all of them at once.
func readManifests(stdin io.Reader, names []string) ([]api.Item, error) {
	if len(names) == 0 {
		return nil, usagef("name at least one file, folder or - with -f")
	}
	var items []api.Item
	var errs []error
	total := 0
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range files {
			data, err := readFile(stdin, f)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if total += len(data); total > maxManifests {
				return nil, fault.SizeLimit("the files up to "+shownName(f), int64(total), maxManifests)
			}
			found, err := api.DecodeManifests(shownName(f), data)
			if err != nil {
				errs = append(errs, err)
			}
			items = append(items, found...)
		}
	}
	if twice := api.CheckDuplicates(items); len(twice) > 0 {
		errs = append(errs, twice)
	}
	if len(errs) > 0 {
		return nil, nothingDone(errs...)
	}
	return items, nil
}

// shownName is a file's name in errors.
func shownName(f string) string {
	if f == "-" {
		return "stdin"
	}
	return f
}

// filesOf expands a folder to its manifests, in name order; a folder without any is an error.
func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, plainPathError(err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, plainPathError(err)
	}
	var files []string
	for _, e := range entries {
		ext := strings.ToLower(filepath.Ext(e.Name()))
		if !e.IsDir() && e.Name()[0] != '.' && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the folder holds no .yaml, .yml or .json file", name)
	}
	sort.Strings(files)
	return files, nil
}

func plainPathError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

// readFile reads one regular file or standard input, never more than api.MaxFile.
func readFile(stdin io.Reader, name string) ([]byte, error) {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, plainPathError(err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, api.MaxFile+1))
	if err != nil {
		return nil, plainPathError(err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fault.Invalid.Errorf("%s: the file is empty; write an object, or leave the file out", shownName(name))
	}
	if len(data) > api.MaxFile {
		return nil, fault.TooLarge.Errorf("%s: larger than %d bytes, which is the most that one file may hold; split it", shownName(name), api.MaxFile)
	}
	return data, nil
}
