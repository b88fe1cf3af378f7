// Command app is what the tests run in containers, and the init that hands it its secrets.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/agent/workload/secretenv"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == secretenv.Mode {
		code, err := secretenv.Init(os.Args[2:])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"run"}
	}
	switch args[0] {
	case "run": // until SIGTERM
		run()
	case "exit":
		code, err := strconv.Atoi(args[1])
		if err != nil {
			code = 99
		}
		os.Exit(code)
	case "env":
		for _, name := range args[1:] {
			fmt.Printf("%s=%s\n", name, os.Getenv(name))
		}
		run()
	case "links": // the names of the network interfaces
		ifs, err := net.Interfaces()
		if err != nil {
			fmt.Println(err)
		}
		var names []string
		for _, i := range ifs {
			names = append(names, i.Name)
		}
		fmt.Println("links", strings.Join(names, ","))
		run()
	case "stubborn": // ends by SIGKILL only
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("stubborn")
		for range term {
			fmt.Println("no")
		}
	case "eat": // memory
		var kept [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = byte(i)
			}
			kept = append(kept, b)
			if len(kept) > 4096 {
				return
			}
		}
	case "write": // a file
		if err := os.WriteFile(args[1], []byte(args[2]), 0o644); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		run()
	case "open": // a file for reading and writing
		f, err := os.OpenFile(args[1], os.O_RDWR, 0)
		if err == nil {
			_ = f.Close()
			fmt.Println("opened")
		} else {
			fmt.Println(err)
		}
		run()
	case "follow": // a file: its content, whenever it changes
		last := ""
		for {
			b, err := os.ReadFile(args[1])
			if text := string(b); err == nil && text != last {
				fmt.Println("read", text)
				last = text
			}
			time.Sleep(50 * time.Millisecond)
		}
	case "exists":
		if _, err := os.Stat(args[1]); err != nil {
			os.Exit(1)
		}
	}
}

func run() {
	fmt.Println("running")
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	<-term
	fmt.Println("ending")
}
