package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
)

func TestAnAbsentOrEmptySelectorSelectsNothingUnlessAllIsSet(t *testing.T) {
	labels := map[string]string{"site": "north"}
	for _, c := range []struct {
		p    Placement
		want bool
	}{
		{Placement{}, false},
		{Placement{Selector: &LabelSelector{}}, false},
		{Placement{All: true}, true},
		{Placement{Selector: &LabelSelector{MatchLabels: map[string]string{"site": "north"}}}, true},
		{Placement{Selector: &LabelSelector{MatchLabels: map[string]string{"site": "south"}}}, false},
	} {
		s, err := c.p.DeviceSelector()
		if got := s.Matches(labels); err != nil || got != c.want {
			t.Errorf("%+v matches = %v, %v; want %v", c.p, got, err, c.want)
		}
	}
	if (Selector{}).Matches(labels) || (Selector{}).Matches(nil) {
		t.Error("the zero Selector selects something")
	}
}

func TestParsedSelectorMatchesAsInKubernetes(t *testing.T) {
	labels := map[string]string{"site": "north", "ring": "canary", "empty": "", "x.io/y": "1"}
	for text, want := range map[string]bool{
		"": true, " ": true,
		"site=north": true, "site==north": true, "site = north": true, "site=south": false, "gone=x": false,
		"site!=south": true, "site!=north": false, "gone!=x": true,
		"site in (north,south)": true, "site in (south)": false, "gone in (x)": false, "site in(north)": true, "empty in (,a)": true,
		"site notin (north)": false, "gone notin (x)": true,
		"site": true, "!site": false, "! gone": true, "gone": false,
		"empty=": true, "empty": true, "x.io/y=1": true,
		"site=north,ring=canary": true, "site=north,ring=prod": false, "site , !gone , ring in (canary, prod)": true,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("ParseSelector(%q): %v", text, err)
			continue
		}
		if got := s.Matches(labels); got != want {
			t.Errorf("%q matches = %v, want %v", text, got, want)
		}
		again, err := ParseSelector(s.String())
		if err != nil || again.Matches(labels) != want {
			t.Errorf("%q written as %q reads as %v, %v", text, s, again, err)
		}
	}
}

func TestMalformedSelectorsAreBadRequests(t *testing.T) {
	for _, text := range []string{"=", "a b", "a in", "a in (", "a in (b", "a,,b", "a,", ",a", "a=b=c", "a=(b)", "!", "!a=b", "a in b", "a/b/c=d", "a=-b", "Ä=b", "a in ()x", "a=" + strings.Repeat("b", 64)} {
		if s, err := ParseSelector(text); !errors.Is(err, fault.BadRequest) {
			t.Errorf("ParseSelector(%q) = %v, %v; want BadRequest", text, s, err)
		}
	}
	if _, err := ParseSelector(strings.Repeat("a,", maxSelectorText)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("huge selector: %v, want TooLarge", err)
	}
}

func TestExpressionsNeedAKnownOperatorAndFittingValues(t *testing.T) {
	for _, r := range []LabelSelectorRequirement{
		{Key: "a", Operator: OpIn}, {Key: "a", Operator: OpExists, Values: []string{"x"}}, {Key: "a", Operator: "in", Values: []string{"x"}},
		{Key: "", Operator: OpExists}, {Key: "a", Operator: OpNotIn, Values: []string{"-"}},
	} {
		s, err := (&LabelSelector{MatchExpressions: []LabelSelectorRequirement{r}}).Selector()
		if err == nil || s.Matches(map[string]string{"a": "x"}) {
			t.Errorf("%+v: got %v, %v; want an error and nothing selected", r, s, err)
		}
	}
}

func TestFieldSelectorsKnowTheFieldsOfTheirKind(t *testing.T) {
	a := &Assignment{Metadata: ObjectMeta{Name: "camera.pi-07", Namespace: "north"}, Spec: AssignmentSpec{Device: "pi-07", Workload: "camera"}}
	for text, want := range map[string]bool{
		"": true, "spec.device=pi-07": true, "spec.device==pi-07,spec.workload!=web": true, "spec.device!=pi-07": false,
		"metadata.name=camera.pi-07": true, "metadata.namespace=south": false, "spec.device=": false,
	} {
		s, err := ParseFieldSelector(KindAssignment, text)
		if got := s.Matches(a); err != nil || got != want {
			t.Errorf("%q matches = %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := ParseFieldSelector(KindDevice, "spec.device=x"); !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("field of another kind: %v; want BadRequest that lists the fields", err)
	}
	if _, err := ParseFieldSelector(KindDevice, "metadata.name"); !errors.Is(err, fault.BadRequest) {
		t.Errorf("no operator: %v, want BadRequest", err)
	}
	s, _ := ParseFieldSelector(KindAssignment, "spec.device=pi-07,spec.workload!=web")
	if v, ok := s.Exact("spec.device"); !ok || v != "pi-07" {
		t.Errorf("Exact(spec.device) = %q, %v; want pi-07", v, ok)
	}
	if v, ok := s.Exact("spec.workload"); ok {
		t.Errorf("Exact of a != requirement = %q, want none", v)
	}
}

func TestEverySelectableFieldHasItsValue(t *testing.T) {
	for _, k := range Kinds() {
		o := filled(k)
		for _, f := range SelectableFields(k) {
			if FieldValue(o, f) == "" {
				t.Errorf("%s: no value of %s", k, f)
			}
		}
	}
}

func FuzzParseSelector(f *testing.F) {
	for _, s := range []string{"a=b", "a in (b,c),!d", "a notin (x)", "!a", "a!=b,c", "(", "a in (,)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			return
		}
		again, err := ParseSelector(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is written %q, which reads as %q, %v", text, s, again, err)
		}
	})
}
