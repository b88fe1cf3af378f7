package remote

import (
	"strings"
	"testing"
)

// FuzzConfigFile: whatever a config file holds, what is changed in it leaves a file that can be read, with the change in it.
func FuzzConfigFile(f *testing.F) {
	f.Add([]byte(kubeconfig(goodCluster, goodUser)), "main", "other")
	f.Add([]byte("contexts: [{name: a, context: {cluster: b, user: c}}]\nusers: [{name: c, user: {exec: {command: x}}}]\nextra: {1: 2}"), "a", "no")
	f.Add([]byte("clusters: {}\nusers: 3"), "", "")
	f.Fuzz(func(t *testing.T, data []byte, from, to string) {
		c, err := parseConfigFile(data)
		if err != nil {
			return
		}
		if c.Rename(from, to) != nil || to == "" {
			return
		}
		if err := c.Use(to); err != nil {
			t.Fatal(err)
		}
		b, err := c.encode()
		if err != nil {
			return // larger than a config may be
		}
		again, err := parseConfigFile(b)
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		if got, err := again.Find(""); err != nil || got.Name != to {
			t.Fatalf("current context: got %q, %v; want %q", got.Name, err, to)
		}
	})
}

// FuzzToken: a bearer token that is taken can stand in a header, and none makes the reader of its end stumble.
func FuzzToken(f *testing.F) {
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDB9.c2ln\n")
	f.Add("a.eyJleHAiOjFlMzAwfQ.b")
	f.Add("a b")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := CheckToken([]byte(text))
		if err != nil {
			return
		}
		if strings.ContainsAny(string(got), " \r\n\x00") || got == "" {
			t.Fatalf("%q is taken as a token", text)
		}
		if end, ok := got.Ends(); ok && end.Year() < 1970 {
			t.Fatalf("%q ends at %v", text, end)
		}
	})
}
