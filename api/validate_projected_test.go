package api

import (
	"strings"
	"testing"
)

func TestProjectedTokensAreCheckedFieldByField(t *testing.T) {
	const head = "apiVersion: fleet.drover.dev/v1\nkind: Workload\nmetadata: {name: w}\nspec:\n  placement: {everywhere: true, all: true}\n  template:\n    spec:\n" +
		"      containers: [{name: main, image: 'r.example/i:1'}]\n"
	volume := func(source string) string {
		return head + "      serviceAccountName: robot\n      volumes: [{name: hub, projected: {sources: [" + source + "]}}]\n"
	}
	token := func(fields string) string { return volume("{serviceAccountToken: {" + fields + "}}") }
	for name, tc := range map[string]struct{ manifest, want string }{
		"as it should be":   {token("path: a/token, audience: vault, expirationSeconds: 600"), ""},
		"two files":         {volume("{serviceAccountToken: {path: a}}, {serviceAccountToken: {path: b}}"), ""},
		"no account":        {strings.Replace(token("path: t"), "      serviceAccountName: robot\n", "", 1), "serviceAccountName: is missing"},
		"a bad account":     {strings.Replace(token("path: t"), "robot", "Ro_bot", 1), "serviceAccountName"},
		"no path":           {token("audience: vault"), "path: is missing"},
		"an absolute path":  {token("path: /token"), "is absolute"},
		"a way out":         {token("path: a/../../token"), `has a part ".."`},
		"a hidden way":      {token("path: ..data"), `has a part "..data"`},
		"a double slash":    {token("path: a//b"), `has a part ""`},
		"too short":         {token("path: t, expirationSeconds: 599"), "expirationSeconds"},
		"too long":          {token("path: t, expirationSeconds: 86401"), "expirationSeconds"},
		"one path twice":    {volume("{serviceAccountToken: {path: a}}, {serviceAccountToken: {path: a}}"), "stands in the way"},
		"a path in a file":  {volume("{serviceAccountToken: {path: a}}, {serviceAccountToken: {path: a/b}}"), "stands in the way"},
		"nothing":           {volume(""), "is empty"},
		"an empty source":   {volume("{}"), "serviceAccountToken"},
		"another source":    {volume("{secret: {name: s}}"), `secret: not supported by this release`},
		"a bad mode":        {strings.Replace(token("path: t"), "sources:", "defaultMode: 512, sources:", 1), "defaultMode"},
		"two kinds at once": {strings.Replace(token("path: t"), "name: hub,", "name: hub, emptyDir: {},", 1), "exactly one of"},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := DecodeManifests("m.yaml", []byte(tc.manifest))
			var got []string
			if err != nil {
				got = append(got, err.Error())
			}
			for _, i := range items {
				o := i.Object
				Default(o)
				for _, e := range Validate(o) {
					got = append(got, e.Error())
				}
			}
			all := strings.Join(got, "; ")
			if tc.want == "" && all != "" || tc.want != "" && !strings.Contains(all, tc.want) {
				t.Errorf("got %q, want %q", all, tc.want)
			}
		})
	}
}
