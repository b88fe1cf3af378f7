package apiserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

var update = flag.Bool("update", false, "write openapi_docs.json anew from the source of package api")

// sourceDocs reads what package api's source says of the types that the kinds are made of.
func sourceDocs(t *testing.T) fieldDocs {
	t.Helper()
	reached := map[string]bool{"TypeMeta": true}
	for _, k := range api.Kinds() {
		reach(reached, reflect.TypeOf(k.New()))
	}
	files, err := filepath.Glob("../../api/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("source of package api: %d files, %v", len(files), err)
	}
	docs := fieldDocs{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
				docTypes(docs, reached, gen)
			}
		}
	}
	return docs
}

func reach(seen map[string]bool, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		reach(seen, t.Elem())
	case reflect.Struct:
		if seen[t.Name()] || t.PkgPath() != reflect.TypeFor[api.Workload]().PkgPath() {
			return
		}
		seen[t.Name()] = true
		for f := range t.Fields() {
			reach(seen, f.Type)
		}
	}
}

func docTypes(docs fieldDocs, reached map[string]bool, gen *ast.GenDecl) {
	for _, spec := range gen.Specs {
		ts, ok := spec.(*ast.TypeSpec)
		if !ok || !reached[ts.Name.Name] {
			continue
		}
		st, ok := ts.Type.(*ast.StructType)
		if !ok {
			continue
		}
		doc := ts.Doc
		if doc == nil {
			doc = gen.Doc
		}
		of := map[string]string{"": sentence(doc.Text(), "", "")}
		for _, f := range st.Fields.List {
			docField(of, f)
		}
		docs[ts.Name.Name] = of
	}
}

func docField(of map[string]string, f *ast.Field) {
	if f.Tag == nil || len(f.Names) == 0 {
		return
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	text := f.Doc.Text()
	if text == "" {
		text = f.Comment.Text()
	}
	if text != "" && name != "" && name != "-" {
		of[name] = sentence(text, f.Names[0].Name, name)
	}
}

var spaces = regexp.MustCompile(`\s+`)

// sentence makes prose of a comment: on one line, with the field under its JSON name, begun by a capital and ended by a point.
func sentence(text, goName, jsonName string) string {
	text = strings.TrimSpace(spaces.ReplaceAllString(strings.ReplaceAll(text, `\'`, "'"), " "))
	if rest, ok := strings.CutPrefix(text, goName+" "); ok && goName != "" {
		text = jsonName + " " + rest
	} else if text != "" && !strings.ContainsAny(strings.SplitN(text, " ", 2)[0], "/.,:") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func TestDescriptionsAreThoseOfTheSource(t *testing.T) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(sourceDocs(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi_docs.json", want.Bytes(), fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), string(openAPIDocsJSON)); diff != "" {
		t.Errorf("openapi_docs.json is stale: run go generate ./hub/apiserver (-source +embedded):\n%s", diff)
	}
}
