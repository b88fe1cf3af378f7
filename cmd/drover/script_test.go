package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

var update = flag.Bool("update", false, "write the scripts' expected outputs anew")

// inOrder runs scripts one after the other, since each changes the process's own folder.
type inOrder struct{ *testing.T }

func (inOrder) Parallel() {}

func (s inOrder) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(inOrder{t}) })
}

func (inOrder) Verbose() bool { return testing.Verbose() }

// TestScripts runs the scripts under testdata, which read as a manual of the command. Each has a hub of its own. Beside
// testscript's own commands there are
//
//	drover ARGS [< FILE]            the program; fails unless it exits 0 (with !: unless it does not)
//	code N                          the last drover exited with N
//	hub create|update|status ACTOR FILE [CAUSE]
//	                                a controller or device writes, because of the object CAUSE ("workload/hello") as it
//	                                stands, or for the cause of the last such write ("same")
//	large FILE                      a manifest of 2 MiB
//	config FILE WHAT                a kubeconfig: stranger, expired, otherca, nohub
//	identity FILE NAME GROUP        FILE.crt and FILE.key, good for an hour
//	jwt FILE NAME WHEN              a token of NAME that ends in an hour or, with WHEN "ended", ended an hour ago
//
// The hub's CA is in ca.crt and its fingerprint in $FINGERPRINT.
func TestScripts(t *testing.T) {
	t.Setenv("DROVER_CONFIG", "")
	var exit int
	testscript.RunT(inOrder{t}, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			h := startHub(e.T().(inOrder).T)
			e.Values["hub"] = h
			e.Setenv("URL", h.server.URL)
			e.Setenv("FINGERPRINT", remote.Fingerprint(h.ca.cert.Raw))
			return os.WriteFile(filepath.Join(e.WorkDir, "ca.crt"), h.ca.rootPEM(), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"drover": func(ts *testscript.TestScript, neg bool, args []string) {
				exit = drover(ts, args)
				if (exit != 0) != neg {
					ts.Fatalf("drover %s: exit code %d", strings.Join(args, " "), exit)
				}
			},
			"code": func(ts *testscript.TestScript, _ bool, args []string) {
				if want, _ := strconv.Atoi(args[0]); exit != want {
					ts.Fatalf("exit code: got %d, want %d", exit, want)
				}
			},
			"large": func(ts *testscript.TestScript, _ bool, args []string) {
				text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\ndata: {k: " + strings.Repeat("x", 2<<20) + "}\n"
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
			},
			"hub": func(ts *testscript.TestScript, _ bool, args []string) { hubWrite(ts, args) },
			"identity": func(ts *testscript.TestScript, _ bool, args []string) {
				cert, key := hubOf(ts).ca.issue(args[1], args[2], time.Hour)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]+".crt"), cert, 0o600))
				ts.Check(os.WriteFile(ts.MkAbs(args[0]+".key"), key, 0o600))
			},
			"jwt": func(ts *testscript.TestScript, _ bool, args []string) {
				end := time.Now().Add(time.Hour)
				if args[2] == "ended" {
					end = time.Now().Add(-time.Hour)
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(tokenOf(args[1], end)+"\n"), 0o600))
			},
			"config": func(ts *testscript.TestScript, _ bool, args []string) { writeConfig(ts, args[0], args[1]) },
		},
	})
}

func hubOf(ts *testscript.TestScript) *hub { return ts.Value("hub").(*hub) }

// drover runs the program in the script's folder.
func drover(ts *testscript.TestScript, args []string) int {
	back, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(back)) }()
	var in io.Reader = strings.NewReader("")
	if n := len(args); n > 1 && args[n-2] == "<" {
		in = strings.NewReader(ts.ReadFile(args[n-1]))
		args = args[:n-2]
	}
	full := append([]string{"drover", "--patience", "10s", "--config", hubOf(ts).config}, args...)
	return run(hubOf(ts).t.Context(), full, in, ts.Stdout(), ts.Stderr())
}

// hubWrite writes the objects of a file as a part of the hub or as a device would; status is taken as it comes.
func hubWrite(ts *testscript.TestScript, args []string) {
	h := hubOf(ts)
	verb, actor, c := args[0], args[1], h.as(args[1])
	if len(args) > 3 && args[3] != "same" {
		k, name, _ := strings.Cut(args[3], "/")
		kind, ok := api.KindByName(k)
		if !ok {
			ts.Fatalf("no kind %s", k)
		}
		obj, err := c.Get(h.t.Context(), ref(kind, name), client.GetOptions{})
		ts.Check(err)
		h.cause = obj.Meta().ResourceVersion
	}
	cause := ""
	if len(args) > 3 {
		cause = h.cause
	}
	for doc := range strings.SplitSeq(ts.ReadFile(args[2]), "---\n") {
		obj := objectOf(ts, doc)
		r, _ := api.RefOf(obj)
		o := client.WriteOptions{FieldManager: strings.ReplaceAll(actor, ":", "-"), Cause: cause}
		if verb == "create" {
			_, err := c.Create(h.t.Context(), obj, o)
			ts.Check(err)
			continue
		}
		stands, err := c.Get(h.t.Context(), r, client.GetOptions{})
		ts.Check(err)
		obj.Meta().UID = stands.Meta().UID
		if verb == "status" {
			o.Subresource = "status"
			keepSpec(obj, stands)
		}
		_, err = c.Update(h.t.Context(), obj, o)
		ts.Check(err)
	}
}

// keepSpec lets a status be written without the spec being repeated.
func keepSpec(obj, stands api.Object) {
	meta := stands.DeepCopyObject().Meta()
	meta.ResourceVersion = ""
	*obj.Meta() = *meta
	switch o := obj.(type) {
	case *api.Workload:
		o.Spec = api.Copy(stands.(*api.Workload)).Spec
	case *api.Assignment:
		o.Spec = api.Copy(stands.(*api.Assignment)).Spec
	case *api.Rollout:
		o.Spec = api.Copy(stands.(*api.Rollout)).Spec
	}
}

// objectOf reads a YAML document with its status, which manifests of people may not have.
func objectOf(ts *testscript.TestScript, doc string) api.Object {
	js, err := yamlToJSON([]byte(doc))
	ts.Check(err)
	obj, err := api.DecodeJSON(nil, js)
	ts.Check(err)
	if k, _ := api.KindFor(obj); k.Namespaced && obj.Meta().Namespace == "" {
		obj.Meta().Namespace = api.DefaultNS
	}
	return obj
}

func ref(k *api.Kind, name string) api.Ref {
	r := api.Ref{Kind: k, Name: name}
	if k.Namespaced {
		r.Namespace = api.DefaultNS
	}
	return r
}

func writeConfig(ts *testscript.TestScript, file, what string) {
	h := hubOf(ts)
	ca, org, life, url := h.ca.rootPEM(), wire.OrgAdmins, time.Hour, h.server.URL
	switch what {
	case "stranger":
		org = "visitors"
	case "expired":
		life = -time.Hour
	case "otherca":
		ca = newAuthority(h.t).rootPEM()
	case "nohub":
		url = "https://127.0.0.1:1"
	default:
		ts.Fatalf("no config of the kind %s", what)
	}
	h.writeConfig(ts.MkAbs(file), ca, "alice", org, life, url)
}
