package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// checkTime bounds one check of readiness.
const checkTime = 2 * time.Second

// health answers /livez (the process serves), /readyz and /healthz (every check passes). With ?verbose each check has a line, and
// ?exclude=NAME leaves one out; the reason of a failure goes to the log and not to whoever asks, who need not have a certificate.
func (x *exchange) health() error {
	var lines []string
	failed := 0
	left := map[string]bool{}
	for _, name := range x.r.URL.Query()["exclude"] {
		left[name] = true
	}
	note := func(name string, ask func() error) {
		if left[name] {
			delete(left, name)
			lines = append(lines, "[+]"+name+" excluded: ok")
			return
		}
		err := ask()
		if err == nil {
			lines = append(lines, "[+]"+name+" ok")
			return
		}
		failed++
		lines = append(lines, "[-]"+name+" failed: reason withheld")
		x.s.cfg.Logger.Warn("health check failed", "check", name, "err", err)
	}
	note("ping", func() error { return nil })
	if x.route.path != "/livez" {
		for _, c := range x.s.cfg.Ready {
			note(c.Name, func() error { return ask(x.r.Context(), c) })
		}
	}
	if len(left) > 0 {
		lines = append(lines, "warn: no checks of these names to exclude: "+clip(strings.Join(slices.Sorted(maps.Keys(left)), ", ")))
	}
	return x.sendHealth(lines, failed)
}

func ask(ctx context.Context, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return c.Ask(ctx)
}

func (x *exchange) sendHealth(lines []string, failed int) error {
	status, verdict := http.StatusOK, "passed"
	if failed > 0 {
		status, verdict = http.StatusServiceUnavailable, "failed"
	}
	_, verbose := x.r.URL.Query()["verbose"]
	body := "ok"
	if verbose || failed > 0 {
		body = strings.Join(lines, "\n") + fmt.Sprintf("\n%s check %s\n", strings.TrimPrefix(x.route.path, "/"), verdict)
	}
	return x.w.bytes(status, "text/plain; charset=utf-8", []byte(body))
}
