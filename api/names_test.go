package api

import (
	"strings"
	"testing"
)

func TestNameRules(t *testing.T) {
	long64, long254 := strings.Repeat("a", 64), strings.Repeat("a", 254)
	for _, c := range []struct {
		name      string
		check     func(string) error
		good, bad []string
	}{
		{"label", CheckDNSLabel, []string{"a", "pi-07", "0x", strings.Repeat("a", 63)}, []string{"", "A", "a.b", "-a", "a-", "a_b", "ä", "a b", "a/b", long64}},
		{"name", CheckDNSName, []string{"a", "camera.pi-07", "a.b.c", long64}, []string{"", ".", "a.", ".a", "a..b", "a.-b", "A.b", "../a", long254}},
		{"label key", CheckLabelKey, []string{"a", "A_b.c-d", "fleet.drover.dev/arch"}, []string{"", "/a", "a/", "a/b/c", "-a", "a-", "A.io/x y", "Up.io/a", long64}},
		{"label value", CheckLabelValue, []string{"", "a", "1.2_3-X"}, []string{"-", "a-", "a b", "ä", long64}},
		{"config key", CheckConfigKey, []string{"a", ".env", "a_b.c-d", "A"}, []string{"", ".", "..", "..a", "a/b", "a b", long254}},
		{"variable", func(s string) error { return boolError(envName(s)) }, []string{"A", "_a", "a.b-c", "A1"}, []string{"", "1A", "a=b", "a b", "ä"}},
		{"image", CheckImage, []string{"redis", "redis:6", "r.example:5000/a/b:1.4", "a@sha256:" + strings.Repeat("0", 64), "localhost:5000/x"},
			[]string{"", "a b", "https://r/a", "r/", "/a", "a:", "a@sha256:12", "r.example/Camera", "a:-x", "r//a"}},
	} {
		for _, s := range c.good {
			if err := c.check(s); err != nil {
				t.Errorf("%s %q: got %v, want no error", c.name, s, err)
			}
		}
		for _, s := range c.bad {
			if err := c.check(s); err == nil {
				t.Errorf("%s %q: got no error", c.name, s)
			}
		}
	}
}

func boolError(ok bool) error {
	if ok {
		return nil
	}
	return FieldError{"", "bad"}
}

func TestNearestNameIsOnlyOfferedWhenNear(t *testing.T) {
	names := []string{"replicas", "selector", "everywhere"}
	for got, want := range map[string]string{"replcas": "replicas", "Replicas": "replicas", "selecotr": "selector", "every": "", "xyz": "", "": ""} {
		if n := nearest(got, names); n != want {
			t.Errorf("nearest(%q) = %q, want %q", got, n, want)
		}
	}
}
