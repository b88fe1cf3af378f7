// Command fuzz runs every native fuzzer of the module for a while, one after the other, and fails with what the first failing one found.
// Inputs that broke something once stand in testdata/fuzz beside their fuzzer, and go test runs them every time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var each, only string
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	flags.StringVar(&each, "time", "5s", "how long each fuzzer runs: a duration, or a number of inputs as 300x")
	flags.StringVar(&only, "only", "", "fuzzers whose package and name contain one of these, with commas between them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := find(".")
	if err != nil {
		return err
	}
	began, ran := time.Now(), 0
	var failed []error
	for _, f := range all {
		if !wanted(f, only) {
			continue
		}
		if err := f.run(ctx, each); err != nil {
			failed = append(failed, err)
		}
		if ran++; ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Printf("%d fuzzers, %.0f s\n", ran, time.Since(began).Seconds())
	if ran == 0 {
		return fmt.Errorf("there is no fuzzer %q", only)
	}
	return errors.Join(failed...)
}

// fuzzer is one FuzzX of a package.
type fuzzer struct{ dir, name string }

func wanted(f fuzzer, only string) bool {
	return slices.ContainsFunc(strings.Split(only, ","), func(part string) bool { return strings.Contains(f.dir+"."+f.name, part) })
}

// find lists the fuzzers below a folder, in the order of folders; modules within it have their own.
func find(root string) ([]fuzzer, error) {
	var all []fuzzer
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != root && (err == nil || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := declared(path)
		for _, n := range names {
			all = append(all, fuzzer{"./" + filepath.Dir(path), n})
		}
		return err
	})
	return all, err
}

func declared(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// run gives the fuzzer a duration or a number of inputs. Go 1.26 may end a duration with a bare "context deadline exceeded" when a worker
// is in the middle of an input (golang/go#75804); a number of inputs has no such end, so CI counts.
func (f fuzzer) run(ctx context.Context, each string) error {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzztime", each, f.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Printf("%-44s FAILED\n%s\n", f.dir+" "+f.name, out)
		return fmt.Errorf("%s %s: %w", f.dir, f.name, err)
	}
	fmt.Printf("%-44s %4.0f s  %s\n", f.dir+" "+f.name, time.Since(began).Seconds(), lastExecs(string(out)))
	return nil
}

// lastExecs is what the fuzzing engine said last of how far it came.
func lastExecs(out string) string {
	last := ""
	for line := range strings.SplitSeq(out, "\n") {
		if _, said, ok := strings.Cut(line, "execs: "); ok {
			last = "execs: " + said
		}
	}
	return last
}
