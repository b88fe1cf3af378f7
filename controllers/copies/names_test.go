package copies

import (
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api"
)

func TestNamesOfCopiesAreValidAndNeverShared(t *testing.T) {
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60) + "." + strings.Repeat("d", 60)
	pairs := [][2]string{
		{"camera", "pi-07"}, {"camera", "pi-07.site"}, {"camera.pi-07", "site"}, {"a", "b.c"}, {"a.b", "c"},
		{long, "pi-1"}, {long, "pi-2"}, {"w", long}, {"v", long}, {strings.Repeat("e", 249), "x.y"}, {strings.Repeat("e", 249), "x.z"},
	}
	seen := map[string][2]string{}
	for _, p := range pairs {
		name := OnDevice(p[0], p[1])
		if err := api.CheckDNSName(name); err != nil {
			t.Errorf("%q: %v", p, err)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("got %q for both %q and %q", name, p, other)
		}
		seen[name] = p
	}
	if got := OnDevice("camera", "pi-07"); got != "camera.pi-07" {
		t.Errorf("got %q, want camera.pi-07", got)
	}
	if got := Ordinal("web", 3); got != "web.3" {
		t.Errorf("got %q, want web.3", got)
	}
}

func TestTaintsAndTolerations(t *testing.T) {
	taint := []api.Taint{{Key: "site", Value: "lab", Effect: "NoSchedule"}}
	for _, tc := range []struct {
		name string
		tol  []api.Toleration
		want bool // tolerated
	}{
		{"none", nil, false},
		{"equal", []api.Toleration{{Key: "site", Value: "lab"}}, true},
		{"other value", []api.Toleration{{Key: "site", Value: "roof"}}, false},
		{"exists", []api.Toleration{{Key: "site", Operator: "Exists"}}, true},
		{"every key", []api.Toleration{{Operator: "Exists"}}, true},
		{"other effect", []api.Toleration{{Key: "site", Value: "lab", Effect: "NoExecute"}}, false},
	} {
		if got := Untolerated(taint, tc.tol) == nil; got != tc.want {
			t.Errorf("%s: got tolerated %v, want %v", tc.name, got, tc.want)
		}
	}
}
