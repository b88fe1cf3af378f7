package secretenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where the init and the pipe are mounted in a container, and the mode of the binary that is the init.
const (
	InitPath = "/.drover/init"
	PipePath = "/.drover/env"
	Mode     = "container-init"
)

// Command is the command line that starts command under the init.
func Command(command []string) []string {
	return append([]string{InitPath, Mode, PipePath, "--"}, command...)
}

// Waiting tells from a process's command line whether it is still the init, that is, waits for its variables.
func Waiting(cmdline []byte) bool {
	return strings.HasPrefix(string(cmdline), InitPath+"\x00"+Mode+"\x00")
}

// Init is the hidden mode: args are what follows Mode. It returns only when it could not exec, with the exit code to use.
func Init(args []string) (int, error) {
	if len(args) < 3 || args[1] != "--" {
		return 125, errors.New("usage: " + Mode + " PIPE -- COMMAND")
	}
	vars, err := read(args[0])
	if err != nil {
		return 125, err
	}
	env := merge(os.Environ(), vars)
	path, err := lookPath(args[2], env)
	if err != nil {
		return 127, err
	}
	if err := unix.Exec(path, args[2:], env); err != nil {
		return 126, fmt.Errorf("exec %s: %w", path, err)
	}
	return 0, nil
}

// read waits for a whole frame. What an agent that died in the middle left is passed over. The pipe stays open all the
// while, since what the next delivery writes would be lost between a close and the next open.
func read(path string) ([]Var, error) {
	f, err := os.Open(path) // blocks until somebody writes
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var got []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := f.Read(chunk)
		got = append(got, chunk[:n]...)
		if vars, ok := find(got); ok {
			return vars, nil
		}
		if n := len(got) - 4*MaxFrame; n > 0 {
			got = got[n:]
		}
		if errors.Is(err, io.EOF) { // torn, and its writer is gone
			time.Sleep(tornPause)
		} else if err != nil {
			return nil, err
		}
	}
}

// tornPause is how often a process with a torn frame looks for the next.
const tornPause = 20 * time.Millisecond

// find looks for a whole frame, wherever it begins.
func find(b []byte) ([]Var, bool) {
	for {
		i := bytes.Index(b, []byte(magic))
		if i < 0 {
			return nil, false
		}
		if vars, err := decode(bytes.NewReader(b[i:])); err == nil {
			return vars, true
		}
		b = b[i+1:]
	}
}

func merge(env []string, vars []Var) []string {
	out := make([]string, 0, len(env)+len(vars))
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !has(vars, name) {
			out = append(out, e)
		}
	}
	for _, v := range vars {
		out = append(out, v.Name+"="+string(v.Value))
	}
	return out
}

func has(vars []Var, name string) bool {
	for _, v := range vars {
		if v.Name == name {
			return true
		}
	}
	return false
}

// lookPath finds a command as the runtime would: in PATH of the container, or relative to the working directory when it has a slash.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			path = p
		}
	}
	for _, dir := range filepath.SplitList(path) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && !st.IsDir() && unix.Access(p, unix.X_OK) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: not found in %s", name, path)
}
