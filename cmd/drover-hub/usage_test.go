package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/hub"
)

// TestCommandLinesThatMakeNoSenseAreRefusedBeforeAnythingIsDone: each is told what is wrong, and the directory is not even made.
func TestCommandLinesThatMakeNoSenseAreRefusedBeforeAnythingIsDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	member := []string{"--name", "h1", "--api", "10.0.0.1:7443", "--peer", "10.0.0.1:7444"}
	with := func(more ...string) []string { return append([]string{"--dir", dir}, more...) }
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "--dir is missing"},
		{[]string{"doctor"}, "--dir is missing"},
		{with("--init", "--join", "x"), "choose"},
		{with("--force-new"), "--force-new goes with --init"},
		{with("--name", "h1"), "go with --init or --join"},
		{with("--join", "x"), "--join needs --server"},
		{with("--poll", "1ms"), "--poll 1ms: want 1s to 1h"},
		{with("--keep-revisions", "5"), "--keep-revisions 5: want 100 or more"},
		{with("--keep-for", "1s"), "--keep-for 1s: want 1m0s or more"},
		{with("--journal-for", "-1h"), "--journal-for -1h0m0s: want 1m0s or more"},
		{with("--quota", "1Mi"), "--quota 1Mi: want 8Mi or more"},
		{with("--quota", "lots"), "--quota: "},
		{with("--event-quota", "256m"), "--event-quota"},
		{with("--quota-low", "90"), "want percents with 1 <= low < high <= 100"},
		{with("--quota-high", "101"), "want percents with 1 <= low < high <= 100"},
		{with("--copy-rate", "1"), "--copy-rate"},
		{with("--init"), `--name: is empty; --api "": want host:port`},
		{with("--init", "--name", "h1", "--api", "10.0.0.1:7443", "--peer", "10.0.0.1:7443"), "want two ports"},
		{with("--join", "x", "--server", "https://10.0.0.2:7443", "--name", "h1"), `--api "": want host:port`},
		{[]string{"snapshot", "restore", "--dir", dir, "--from", "a", "--key", "b"}, "--name: is empty"},
		{[]string{"doctor", "--nonsense"}, "there is no flag --nonsense; see drover-hub doctor --help"},
		{with("--nonsense"), "there is no flag --nonsense; see drover-hub --help"},
		{[]string{"key", "export", "x", "--dir", dir}, "after the flags"},
		{with("nonsense"), `unexpected argument "nonsense"`},
		{with("--nonsense"), "nonsense"},
		{[]string{"doctor", "--dir", dir, "-o", "xml"}, `there is no output format "xml"`},
		{[]string{"doctor", "--dir", dir, "more"}, `unexpected argument "more"`},
		{[]string{"snapshot", "load"}, `there is no command "load"`},
		{append([]string{"snapshot", "restore", "--dir", dir}, member...), "needs --from, the backup, and --key"},
		{append([]string{"snapshot", "restore", "--dir", dir, "--above-epoch", "16777215", "--from", "a", "--key", "b"}, member...), "--above-epoch"},
		{[]string{"reset-from-survivor", "--dir", dir}, "look with --dry-run first, then say --yes"},
		{[]string{"key", "export", "--dir", dir}, "takes the file to make"},
	} {
		a := app()
		var out bytes.Buffer
		a.Writer, a.ErrWriter = &out, &out
		err := a.RunContext(t.Context(), append([]string{"drover-hub"}, tt.args...))
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("drover-hub %s: got %v, want a usage error with %q", strings.Join(tt.args, " "), err, tt.want)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: got %v, want it not made", err)
	}
}

func TestDirectoryMayBeNamedOnEitherSideOfTheCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	for _, args := range [][]string{{"--dir", dir, "doctor"}, {"doctor", "--dir", dir}, {"--dir", dir, "key", "export", "x"}, {"key", "export", "--dir", dir, "x"}} {
		err := app().RunContext(t.Context(), append([]string{"drover-hub"}, args...))
		if !errors.Is(err, hub.ErrWrongDir) || !strings.Contains(err.Error(), dir) {
			t.Errorf("drover-hub %s: got %v, want that %s is the wrong one", strings.Join(args, " "), err, dir)
		}
	}
}
