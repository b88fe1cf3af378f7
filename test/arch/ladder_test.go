package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/drover-fleet/drover"

// pkg is what the tests need of one package of the module. Paths are relative to the module, "" for its root.
type pkg struct {
	Path        string
	Doc         string
	GoFiles     []string
	Imports     []string
	TestImports []string
}

// packages lists every package of the module, with the imports of its own files and of its tests.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath, Doc                             string
			GoFiles, Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, pkg{
			Path: local(p.ImportPath), Doc: p.Doc, GoFiles: p.GoFiles,
			Imports: ours(p.Imports), TestImports: ours(append(p.TestImports, p.XTestImports...)),
		})
	}
	if len(all) < 20 {
		t.Fatalf("go list found only %d packages: the rules would hold for nothing", len(all))
	}
	return all
}

func local(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

func ours(imports []string) []string {
	var out []string
	for _, i := range imports {
		if strings.HasPrefix(i, module+"/") {
			out = append(out, local(i))
		}
	}
	return out
}

// rooms says, for each floor, which rooms its packages may import besides those of their own room. A package belongs to
// the first row whose prefix it has; an import is judged by the same rule. What is not listed is not allowed.
var rooms = []struct {
	prefix string
	may    []string
}{
	{"test", []string{"api", "store", "consensus", "client", "sched", "controllers", "hub", "agent", "cmd"}},
	{"cmd/drover-agent", []string{"agent", "api"}},
	{"cmd/drover-hub", []string{"hub", "api"}},
	{"cmd/drover", []string{"client", "api"}},
	{"hub", []string{"api", "store", "consensus", "client", "sched", "controllers"}},
	{"agent", []string{"api"}},
	{"controllers", []string{"client", "api"}},
	{"sched", []string{"client", "api"}},
	{"client", []string{"api"}},
	{"store", nil},
	{"consensus", nil},
	{"api", nil},
}

func room(path string) (prefix string, may []string, ok bool) {
	for _, r := range rooms {
		if path == r.prefix || strings.HasPrefix(path, r.prefix+"/") {
			return r.prefix, r.may, true
		}
	}
	return "", nil, false
}

// violations judges one package against the ladder.
func violations(p pkg) []string {
	mine, may, ok := room(p.Path)
	if !ok {
		return []string{p.Path + " stands in no room of the house"}
	}
	var bad []string
	for _, imp := range p.Imports {
		theirs, _, _ := room(imp)
		if theirs != mine && !slices.Contains(may, theirs) {
			bad = append(bad, p.Path+" imports "+imp)
		}
		if narrow, ok := narrowed[p.Path]; ok && theirs == mine && !slices.Contains(narrow, imp) {
			bad = append(bad, p.Path+" imports "+imp+" of its own room")
		}
	}
	for _, imp := range p.TestImports {
		if mine != "test" && (strings.HasPrefix(imp, "test/") || strings.HasPrefix(imp, "cmd/")) {
			bad = append(bad, "the tests of "+p.Path+" import "+imp)
		}
	}
	return bad
}

// narrowed lists packages that may import only some of their own room: the pure cores, and the ground floor.
var narrowed = map[string][]string{
	"api/await":   {},
	"api/fault":   {},
	"api/grant":   {},
	"api/retry":   {"api/fault"},
	"api/wire":    {"api/fault", "api/grant"},
	"sched/place": {},
	"store":       {},
}

func TestImportsPointOnlyDown(t *testing.T) {
	for _, p := range packages(t) {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && len(p.Doc) < 40 {
			t.Errorf("%s has no package comment that says what it is for: %q", p.Path, p.Doc)
		}
	}
}

// The rule itself must be able to fail.
func TestLadderRefusesWhatItShould(t *testing.T) {
	for _, c := range []struct {
		p    pkg
		want int
	}{
		{pkg{Path: "agent/link", Imports: []string{"hub/gateway"}}, 1},
		{pkg{Path: "hub/gateway", Imports: []string{"agent/link"}}, 1},
		{pkg{Path: "store/mvcc", Imports: []string{"api"}}, 1},
		{pkg{Path: "store/mvcc", Imports: []string{"consensus"}}, 1},
		{pkg{Path: "controllers/gc", Imports: []string{"hub/registry"}}, 1},
		{pkg{Path: "api/wire", Imports: []string{"api"}}, 1},
		{pkg{Path: "hub", TestImports: []string{"test/lab"}}, 1},
		{pkg{Path: "util"}, 1},
		{pkg{Path: "hub/registry", Imports: []string{"client", "api", "store"}}, 0},
		{pkg{Path: "agent/workload/ctrd", Imports: []string{"agent/workload", "api/wire"}}, 0},
	} {
		if got := violations(c.p); len(got) != c.want {
			t.Errorf("%+v: got %d violations %q, want %d", c.p, len(got), got, c.want)
		}
	}
}
