package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestProfilesAreServedToTheOwnUserOnlyAndOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), profileSocket)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // what a killed process left
		t.Fatal(err)
	}
	stop, err := serveProfiles(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a socket of mode 0600", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	for url, want := range map[string]int{
		"/block?seconds=1": 200, "/mutex?seconds=1": 200, "/heap": 200, "/cpu?seconds=1": 200,
		"/block": 400, "/mutex?seconds=100000": 400, "/debug/pprof/": 404,
	} {
		resp, err := client.Get("http://profile" + url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil || resp.StatusCode != want || want == 200 && len(body) == 0 {
			t.Errorf("%s: got %s with %d bytes, %v, want %d", url, resp.Status, len(body), err, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
}
