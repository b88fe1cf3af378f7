package apiserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
)

// What people write must be taught; status is Kubernetes' or named by its type.
func TestEveryFieldThatPeopleWriteIsDescribed(t *testing.T) {
	docs, err := readFieldDocs()
	if err != nil {
		t.Fatal(err)
	}
	g := newSchemaMaker(docs, false)
	var bare []string
	for _, k := range api.Kinds() {
		g.kind(k)
	}
	for name, s := range g.schemas {
		if s.Description == "" {
			bare = append(bare, name)
		}
		if strings.Contains(name, "Status") {
			continue
		}
		for field, f := range s.Properties {
			target := g.schemas[strings.TrimPrefix(f.Ref, "#/definitions/")]
			if f.Description == "" && (target == nil || target.Description == "") {
				bare = append(bare, name+"."+field)
			}
		}
	}
	slices.Sort(bare)
	if len(bare) > 0 {
		t.Errorf("%d fields have no description: give them a comment in package api and run go generate ./hub/apiserver:\n%s", len(bare), strings.Join(bare, "\n"))
	}
}
