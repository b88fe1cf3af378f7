package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func arranged(line string) (string, error) {
	out, err := arrange(newApp(nil, nil, nil), strings.Split("drover "+line, " "))
	return strings.TrimPrefix(strings.Join(out, " "), "drover "), err
}

func TestFlagsStandOnEitherSideOfArguments(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"get devices", "get -- devices"},
		{"get devices -o wide", "get -o wide -- devices"},
		{"get -o wide devices pi-1", "get -o wide -- devices pi-1"},
		{"get devices --output=wide pi-1", "get --output=wide -- devices pi-1"},
		{"-n prod get devices", "-n prod get -- devices"},
		{"get -n prod devices", "-n prod get -- devices"},
		{"get devices -n=prod", "-n=prod get -- devices"},
		{"get devices -nprod", "-n=prod get -- devices"},
		{"get -Aw devices", "get -A -w -- devices"},
		{"get -Awo wide devices", "get -A -w -o wide -- devices"},
		{"get -Aowide devices", "get -A -o=wide -- devices"},
		{"get -wnprod devices", "-n=prod get -w -- devices"},
		{"get devices -l=a=b", "get -l=a=b -- devices"},
		{"get devices -Al=a=b", "get -A -l=a=b -- devices"},
		{"-n get get devices", "-n get get -- devices"},
		{"-n -x get devices", "-n -x get -- devices"},
		{"logs hello --tail -1", "logs --tail -1 -- hello"},
		{"logs get", "logs -- get"},
		{"logs -- -f", "logs -- -f"},
		{"logs a -- b", "logs -- a b"},
		{"rollout status status", "rollout status -- status"},
		{"rollout status hello --timeout 5s", "rollout status --timeout 5s -- hello"},
		{"rollout --help", "rollout --help"},
		{"rollout undo --help", "rollout undo --help"},
		{"apply -f -", "apply -f -"},
		{"apply -f a -f b", "apply -f a -f b"},
		{"rollout status --watch=false x", "rollout status --watch=false -- x"},
		{"fly away", "-- fly away"},
		{"label device pi-1 site-", "label -- device pi-1 site-"},
	} {
		got, err := arranged(c.typed)
		if err != nil || got != c.want {
			t.Errorf("drover %s: got %q, %v; want %q", c.typed, got, err, c.want)
		}
	}
}

func TestSenselessFlagsAreNamed(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"get devices --wat", "there is no flag --wat; did you mean --watch? see drover get --help"},
		{"get devices --wat=5", "there is no flag --wat; did you mean --watch? see drover get --help"},
		{"get devices -x", "there is no flag -x; see drover get --help"},
		{"get devices -Ax", "there is no flag -Ax; see drover get --help"},
		{"get devices -Aé", "there is no flag -Aé; see drover get --help"},
		{"rollout undo hello --fast", "there is no flag --fast; see drover rollout undo --help"},
		{"-o wide get devices", "there is no flag -o; see drover --help"},
		{"get devices -o", "flag -o needs a value; see drover get --help"},
		{"get devices -Ao", "flag -o needs a value; see drover get --help"},
	} {
		got, err := arranged(c.typed)
		if err == nil || err.Error() != c.want {
			t.Errorf("drover %s: got %q, %v; want %q", c.typed, got, err, c.want)
		}
	}
}

// FuzzArrange: no word is lost or made up, and arguments keep their order.
func FuzzArrange(f *testing.F) {
	for _, s := range []string{"get devices -o wide", "get -Awoname x", "-n get get -- -x", "rollout status -w=false a b", "logs --tail -1 -", "get -l=é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		out, err := arrange(newApp(nil, nil, nil), append([]string{"drover"}, words...))
		if err != nil {
			return
		}
		letters := func(list []string) []rune {
			s := strings.NewReplacer("-", "", "=", "").Replace(strings.Join(list, ""))
			r := []rune(s)
			slices.Sort(r)
			return r
		}
		if got, want := letters(out[1:]), letters(words); !slices.Equal(got, want) {
			t.Errorf("%q became %q", words, out)
		}
		again, err := arrange(newApp(nil, nil, nil), out)
		if err != nil || !slices.Equal(again, out) {
			t.Errorf("%q arranged is %q, and again %q, %v", words, out, again, err)
		}
	})
}

func TestLabelsAreSetRemovedAndNotOverwrittenByAccident(t *testing.T) {
	names, change, err := splitLabels([]string{"device", "pi-1", "site=north", "ring-", "a=b=c", "empty="})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"device", "pi-1"}, names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(labelChange{map[string]string{"site": "north", "a": "b=c", "empty": ""}, []string{"ring"}}, change, cmp.AllowUnexported(labelChange{})); d != "" {
		t.Error(d)
	}
	for _, bad := range [][]string{{}, {"device", "pi-1"}, {"device", "a=b", "pi-1"}, {"device", "a=b", "a-"}, {"device", "-"}, {"device", "=b"}} {
		if _, _, err := splitLabels(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}
