package report

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// maxProfile bounds one profile, in bytes.
const maxProfile = 64 << 20

// Profile takes a profile of a hub member that was started with --profiles, over the given time (0 for one that is of a moment), and
// writes it to the file, with its table beside it.
func Profile(ctx context.Context, memberDir, kind string, over time.Duration, file string) error {
	ctx, cancel := context.WithTimeout(ctx, over+30*time.Second)
	defer cancel()
	b, err := fetchProfile(ctx, filepath.Join(memberDir, "profile.sock"), kind, over)
	if err != nil {
		return fmt.Errorf("profile %s of %s: %w", kind, memberDir, err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return err
	}
	args := []string{"tool", "pprof", "-top", "-cum", "-nodecount=80"}
	if kind == "heap" {
		args = []string{"tool", "pprof", "-top", "-inuse_space", "-nodecount=80"}
	}
	table, err := exec.CommandContext(ctx, "go", append(args, file)...).Output()
	if err != nil {
		return fmt.Errorf("table of %s: %w", file, err)
	}
	return os.WriteFile(file+".txt", table, 0o644)
}

func fetchProfile(ctx context.Context, socket, kind string, over time.Duration) ([]byte, error) {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer t.CloseIdleConnections()
	url := "http://member/" + kind
	if over > 0 {
		url += fmt.Sprintf("?seconds=%.0f", over.Seconds())
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(rq)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProfile))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", resp.Status, b)
	}
	return b, err
}
