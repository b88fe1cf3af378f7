package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agentSizeLimit is the largest stripped arm64 agent, in bytes: 22 MiB. The official containerd client with gRPC, protobuf and
// the OCI types is 15.9 MiB of it, TLS and HTTP about 4, our own code the rest. A board's flash and a metered download
// both feel every MiB: raise this only with a reason in ARCHITECTURE.md.
const agentSizeLimit = 22 << 20

// agentModules are all modules that the agent may link besides the standard library and our own. Each came with one of: containerd's
// client (c), CBOR (b), system calls (s).
const agentModulesFile = "testdata/agent_modules"

func TestAgentLinksOnlyWhatIsListed(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/drover-agent")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	got = slices.DeleteFunc(slices.Compact(got), func(m string) bool { return m == module })
	text, err := os.ReadFile(agentModulesFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	for _, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("the agent links %s, which %s does not list", m, agentModulesFile)
		}
	}
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("%s lists %s, which the agent does not link", agentModulesFile, m)
		}
	}
	if len(got) == 0 {
		t.Error("the agent links no module at all: the test looks at nothing")
	}
}

func TestAgentFitsItsSize(t *testing.T) {
	out := filepath.Join(t.TempDir(), "drover-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./cmd/drover-agent")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("arm64, stripped: %.2f MiB of %.0f", float64(info.Size())/(1<<20), float64(agentSizeLimit)/(1<<20))
	if info.Size() > agentSizeLimit {
		t.Errorf("the arm64 agent is %d bytes, want at most %d", info.Size(), agentSizeLimit)
	}
}
