// Command hello is the workload of the demo and of the end-to-end tests: it greets at an interval, becomes ready after a
// delay, and ends as it is told. It is the only file of the sample image.
//
//	hello                    greet until SIGTERM
//	hello ready              exit 0 once the running greeter is ready (a readiness probe)
//	hello exit CODE [AFTER]  exit with CODE after a duration
//	hello env NAME FILE      write the variable's value length and SHA-256 to FILE, then greet
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const readyFile = "/hello.ready"

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		greet()
		return
	}
	switch {
	case args[0] == "ready":
		if _, err := os.Stat(readyFile); err != nil {
			fmt.Fprintln(os.Stderr, "not ready yet")
			os.Exit(1)
		}
	case args[0] == "exit" && len(args) >= 2:
		exit(args[1:])
	case args[0] == "env" && len(args) == 3:
		value := os.Getenv(args[1])
		fact := fmt.Sprintf("%d %x\n", len(value), sha256.Sum256([]byte(value)))
		if err := os.WriteFile(args[2], []byte(fact), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		greet()
	default:
		fmt.Fprintf(os.Stderr, "hello: unknown arguments %q\n", args)
		os.Exit(2)
	}
}

// greet prints a line at once and every GREETING_EVERY (default 10s) until it is told to stop.
func greet() {
	every := durationOf("GREETING_EVERY", 10*time.Second)
	ready := time.After(durationOf("READY_AFTER", 0))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	tick := time.NewTicker(every)
	greeting := os.Getenv("GREETING")
	if greeting == "" {
		greeting = "hello"
	}
	say := func() {
		fmt.Printf("%s %s from %s\n", time.Now().UTC().Format(time.RFC3339), greeting, os.Getenv("DEVICE"))
	}
	say()
	for {
		select {
		case <-ready:
			if err := os.WriteFile(readyFile, nil, 0o644); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		case <-tick.C:
			say()
		case s := <-stop:
			fmt.Printf("stopping on %s\n", s)
			return
		}
	}
}

func durationOf(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(name)); err == nil && d >= 0 {
		return d
	}
	return otherwise
}

func exit(args []string) {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "hello: exit code %q is not a number\n", args[0])
		os.Exit(2)
	}
	if len(args) > 1 {
		if d, err := time.ParseDuration(args[1]); err == nil {
			time.Sleep(d)
		}
	}
	os.Exit(code)
}
