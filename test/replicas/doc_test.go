package replicas

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTableOfOthersBugsNamesTestsThatExist keeps doc.go true.
func TestTheTableOfOthersBugsNamesTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(doc), -1) {
		missing[name] = true
	}
	if len(missing) < 17 {
		t.Errorf("got %d tests named, want one for each bug", len(missing))
	}
	if got := strings.Count(string(doc), "\n//\t#"); got != 17 {
		t.Errorf("got %d bugs, want 17", got)
	}
	root := filepath.Join("..", "..")
	for _, pillar := range []string{"store", "hub", "consensus", "test"} {
		err := filepath.WalkDir(filepath.Join(root, pillar), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for name := range missing {
				// A name may be cut short with three dots where it was written out before.
				if strings.Contains(string(text), "func "+name+"(") || strings.Contains(string(doc), name+"...") && strings.Contains(string(text), "func "+name) {
					delete(missing, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range missing {
		t.Errorf("there is no test %s", name)
	}
}
