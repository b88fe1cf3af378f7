package arch

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// advisories are modules of which older versions have known vulnerabilities that would concern us, with the first version that is sound;
// "" where no version is. make vuln asks the whole database; this holds where that cannot be reached.
func advisories() map[string]string {
	return map[string]string{
		"github.com/eclipse/paho.mqtt.golang": "v1.5.1",  // CVE-2025-10543
		"github.com/pion/dtls/v2":             "",        // CVE-2026-26014, CVE-2026-54908; mended in v3 only
		"github.com/pion/dtls/v3":             "v3.1.4",  // the same
		"github.com/mochi-mqtt/server/v2":     "v2.6.4",  // CVE-2024-50948
		"github.com/golang-jwt/jwt":           "",        // CVE-2025-30204; mended in v5
		"github.com/golang-jwt/jwt/v5":        "v5.2.2",  // CVE-2025-30204
		"github.com/dgrijalva/jwt-go":         "",        // CVE-2020-26160
		"golang.org/x/crypto":                 "v0.45.0", // CVE-2025-47914, CVE-2025-58181
		"golang.org/x/net":                    "v0.38.0", // CVE-2025-22872, and the rapid reset of HTTP/2 before it
		"google.golang.org/grpc":              "v1.58.3", // GHSA-m425-mq94-257g
		"google.golang.org/protobuf":          "v1.33.0", // CVE-2024-24786
		"github.com/containerd/containerd/v2": "v2.2.0",  // CVE-2024-25621, CVE-2025-64329
		"gopkg.in/yaml.v3":                    "v3.0.1",  // CVE-2022-28948
		"gopkg.in/yaml.v2":                    "v2.2.8",  // CVE-2019-11254
		"github.com/sirupsen/logrus":          "v1.9.3",  // CVE-2025-65637
		"github.com/prometheus/client_golang": "v1.11.1", // CVE-2022-21698
	}
}

// TestNoModuleHasAKnownVulnerability looks at what every module of the tree is built of.
func TestNoModuleHasAKnownVulnerability(t *testing.T) {
	seen := 0
	for _, dir := range moduleDirs(t) {
		for path, version := range builtOf(t, dir) {
			seen++
			if why := unsound(path, version); why != "" {
				t.Errorf("%s: %s %s: %s", dir, path, version, why)
			}
		}
	}
	if seen < 40 {
		t.Fatalf("only %d modules were looked at: the rule would hold for nothing", seen)
	}
}

func TestVersionsOlderThanTheMendedOneAreUnsound(t *testing.T) {
	for at, bad := range map[string]bool{
		"github.com/golang-jwt/jwt/v5 v5.2.1": true, "github.com/golang-jwt/jwt/v5 v5.2.2": false, "github.com/golang-jwt/jwt/v5 v5.10.0": false,
		"github.com/golang-jwt/jwt/v5 v5.2.2-rc.1": true, "github.com/pion/dtls/v2 v2.2.12": true, "golang.org/x/net v0.0.0-20250101000000-abcdefabcdef": true, "example.org/x v0.1.0": false,
	} {
		path, version, _ := strings.Cut(at, " ")
		if got := unsound(path, version); (got != "") != bad {
			t.Errorf("%s: got %q, want unsound: %v", at, got, bad)
		}
	}
}

func unsound(path, version string) string {
	least, known := advisories()[path]
	switch {
	case !known:
		return ""
	case least == "":
		return "no version of it is sound"
	case slices.Compare(numbers(version), numbers(least)) < 0:
		return fmt.Sprintf("is vulnerable; the first sound version is %s", least)
	}
	return ""
}

// numbers are major, minor, patch, and 0 for a version before the release that it leads to, else 1.
func numbers(version string) []int {
	core, pre, early := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(version, "v"), "+incompatible"), "-")
	out := make([]int, 0, 4)
	for part := range strings.SplitSeq(core, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 0
		}
		out = append(out, n)
	}
	if early && pre != "" {
		return append(out, 0)
	}
	return append(out, 1)
}

func moduleDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	if err != nil || len(dirs) == 0 {
		t.Fatalf("find modules: got %v, %v", dirs, err)
	}
	return dirs
}

// builtOf reads a go.mod: with pruned graphs it lists every module that packages of ours come from, with the version that is taken.
func builtOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: go mod edit: %v", dir, err)
	}
	var m struct {
		Require []struct{ Path, Version string }
		Replace []struct {
			Old struct{ Path string }
			New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range m.Require {
		all[r.Path] = r.Version
	}
	for _, r := range m.Replace {
		if _, needed := all[r.Old.Path]; needed && r.New.Version != "" {
			all[r.New.Path] = r.New.Version
		}
		delete(all, r.Old.Path)
	}
	return all
}
