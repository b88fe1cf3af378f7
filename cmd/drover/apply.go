package main

import (
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
	"github.com/drover-fleet/drover/client"
)

// maxFile bounds one manifest file before it is read, and maxSet all files of one apply, in bytes.
const (
	maxFile = 8 << 20
	maxSet  = 8 << 20
)

func applyCommand() *cli.Command {
	return &cli.Command{
		Name: "apply", Usage: "make the hub hold what the manifests declare, all of them or none",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "`FILE`, folder (its .yaml, .yml and .json files), or - for standard input; may be repeated"},
			&cli.BoolFlag{Name: "dry-run", Usage: "let the hub check everything and write nothing"},
			&cli.BoolFlag{Name: "force", Usage: "take fields over that another manager owns"},
			&cli.StringFlag{Name: "field-manager", Value: "drover", Usage: "owner `NAME` of the fields"},
			outputFlag("name", "json", "yaml"),
		},
		Action: apply,
	}
}

func apply(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("apply takes no arguments; name files with -f")
	}
	output, err := outputOf(c, "name", "json", "yaml")
	if err != nil {
		return err
	}
	items, err := readManifests(c.App.Reader, c.StringSlice("filename"))
	if err != nil {
		return err
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	tx := client.Transaction{FieldManager: c.String("field-manager"), Force: c.Bool("force"), DryRun: c.Bool("dry-run")}
	for _, it := range items {
		setNamespace(it.Object, hub.namespace)
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxApply, Object: it.Object})
	}
	results, err := hub.Transact(c.Context, tx)
	if err != nil {
		return err
	}
	return printApplied(c, output, results, tx.DryRun)
}

func printApplied(c *cli.Context, output string, results []client.TxResult, dry bool) error {
	if output == "json" || output == "yaml" {
		objects := make([]api.Object, len(results))
		for i, r := range results {
			objects[i] = r.Object
		}
		return printObjects(c.App.Writer, output, objects)
	}
	for _, r := range results {
		line := refOf(r.Object) + " " + r.Action
		if dry {
			line += " (dry run)"
		}
		if output == "name" {
			line = refOf(r.Object)
		}
		if _, err := fmt.Fprintln(c.App.Writer, line); err != nil {
			return err
		}
	}
	return nil
}

// setNamespace fills the namespace in where the kind has one and the manifest does not.
func setNamespace(obj api.Object, namespace string) {
	k, ok := api.KindOf(obj.Type().APIVersion, obj.Type().Kind)
	if ok && k.Namespaced && obj.Meta().Namespace == "" {
		obj.Meta().Namespace = namespace
	}
}

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
			if total += len(data); total > maxSet {
				return nil, fmt.Errorf("%s: the set is larger than %d bytes with this file; apply it in parts", f, maxSet)
			}
			found, err := api.DecodeManifests(f, data)
			if err != nil {
				errs = append(errs, err)
			}
			items = append(items, found...)
		}
	}
	errs = append(errs, duplicatesOf(items)...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("nothing was done:\n%w", errors.Join(errs...))
	}
	return items, nil
}

// duplicatesOf refuses two manifests of one object: which of them is meant cannot be known.
func duplicatesOf(items []api.Item) []error {
	var errs []error
	seen := map[string]api.Item{}
	for _, it := range items {
		key := it.Object.Type().APIVersion + " " + refOf(it.Object) + " " + it.Object.Meta().Namespace
		if first, ok := seen[key]; ok {
			errs = append(errs, fmt.Errorf("%s:%d: %s is declared at %s:%d already; keep one of the two", it.File, it.Line, refOf(it.Object), first.File, first.Line))
			continue
		}
		seen[key] = it
	}
	return errs
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

// readFile reads one regular file or standard input, never more than maxFile.
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
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, plainPathError(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes, which is the most that one set may hold", name, maxFile)
	}
	return data, nil
}
