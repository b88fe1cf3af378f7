package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/hub"
)

// profileSocket lies in the member's directory, which only its user can enter.
const profileSocket = "profile.sock"

// maxProfile bounds how long one profile may take.
const maxProfile = 2 * time.Minute

func profileFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{
		Name: "profiles", Hidden: true, // for those who build Drover
		Usage: "answer with profiles of this process on " + profileSocket + " in the directory",
	}}
}

// runMember runs the member with what belongs to its process: the keeper of its heap and, where that was asked for, profiles.
func runMember(c *cli.Context, dir string, h *hub.Hub) error {
	ctx, cancel := context.WithCancel(c.Context)
	var keeper sync.WaitGroup
	keeper.Go(func() { keepHeap(ctx) })
	defer keeper.Wait()
	defer cancel()
	if !c.Bool("profiles") {
		return h.Run(c.Context)
	}
	stop, err := serveProfiles(c.Context, filepath.Join(dir, profileSocket))
	if err != nil {
		return errors.Join(fmt.Errorf("--profiles: %w", err), h.Close())
	}
	return errors.Join(h.Run(c.Context), stop())
}

// serveProfiles answers GET /cpu, /block, /mutex (each with ?seconds=N), /heap and /goroutine until stop. Blocking and contention are
// recorded only while somebody asks: it costs the member time.
func serveProfiles(ctx context.Context, path string) (stop func() error, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // what a killed process left
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cpu", pprof.Profile)
	mux.Handle("GET /heap", pprof.Handler("heap"))
	mux.Handle("GET /goroutine", pprof.Handler("goroutine"))
	mux.Handle("GET /block", recorded(pprof.Handler("block"), func(on bool) {
		rate := 0
		if on {
			rate = int(10 * time.Microsecond) // blocking for so long is recorded once, on average
		}
		runtime.SetBlockProfileRate(rate)
	}))
	mux.Handle("GET /mutex", recorded(pprof.Handler("mutex"), func(on bool) {
		every := 0
		if on {
			every = 10
		}
		runtime.SetMutexProfileFraction(every)
	}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second, WriteTimeout: maxProfile}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		err := server.Close()
		if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
			err = errors.Join(err, serving)
		}
		return err
	}, nil
}

// recorded switches recording on for a request.
func recorded(serve http.Handler, set func(on bool)) http.Handler {
	one := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.URL.Query().Get("seconds")); err != nil || n < 1 || time.Duration(n)*time.Second > maxProfile {
			http.Error(w, fmt.Sprintf("seconds must be 1 to %d", maxProfile/time.Second), http.StatusBadRequest)
			return
		}
		select {
		case one <- struct{}{}:
			defer func() { <-one }()
		default:
			http.Error(w, "somebody asks already", http.StatusConflict)
			return
		}
		set(true)
		defer set(false)
		serve.ServeHTTP(w, r)
	})
}
