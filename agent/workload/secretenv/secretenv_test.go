package secretenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The test binary is the init when it is told so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Mode {
		code, err := Init(os.Args[2:])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
	os.Exit(m.Run())
}

type process struct {
	pipe string
	out  bytes.Buffer
	done chan error
	err  error // of Wait, once output returned
	cmd  *exec.Cmd
	left atomic.Bool
}

func startInit(t *testing.T, command ...string) *process {
	t.Helper()
	p := &process{pipe: filepath.Join(t.TempDir(), "s", "env"), done: make(chan error, 1)}
	if err := MakeFIFO(p.pipe); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0], append([]string{Mode, p.pipe, "--"}, command...)...)
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", "A=plain", "B=overridden"}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.cmd.Wait()
		p.left.Store(true)
		p.done <- err
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// waiting is true until the process execs its command or ends. A command line is empty for a moment in every exec.
func (p *process) waiting(context.Context) (bool, error) {
	if p.left.Load() {
		return false, nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err != nil {
		return false, nil
	}
	return len(b) == 0 || bytes.Contains(b, []byte(Mode)), nil
}

func (p *process) output(t *testing.T) string {
	t.Helper()
	select {
	case err := <-p.done:
		p.err = err
		return p.out.String()
	case <-time.After(20 * time.Second):
		t.Fatal("the process did not end")
		return ""
	}
}

var secrets = []Var{{"B", []byte("s3cret")}, {"LONG", bytes.Repeat([]byte("x"), 100<<10)}}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestVariablesReachTheCommandAndReplacePlainOnes(t *testing.T) {
	p := startInit(t, "sh", "-c", `echo "$A $B ${#LONG}"`)
	ok, err := Deliver(within(t), p.pipe, secrets, p.waiting)
	if !ok || err != nil {
		t.Fatalf("got delivered=%v, %v", ok, err)
	}
	if got := strings.TrimSpace(p.output(t)); got != "plain s3cret 102400" {
		t.Errorf("got %.60q, want plain s3cret 102400", got)
	}
}

func TestASecondDeliveryFindsNobodyWaitingAndChangesNothing(t *testing.T) {
	p := startInit(t, "sleep", "60")
	if ok, err := Deliver(within(t), p.pipe, secrets, p.waiting); !ok || err != nil {
		t.Fatalf("first: got delivered=%v, %v", ok, err)
	}
	for w := true; w; w, _ = p.waiting(context.Background()) { // until it is the command
	}
	ok, err := Deliver(within(t), p.pipe, secrets, p.waiting)
	if ok || err != nil {
		t.Errorf("second: got delivered=%v, %v; want false, nil", ok, err)
	}
}

func TestATornDeliveryMakesTheProcessWaitForTheNext(t *testing.T) {
	frame, err := encode(secrets)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 1, 11, 43, 44, 4096, len(frame) - 1} {
		p := startInit(t, "sh", "-c", `echo "$B"`)
		f, err := os.OpenFile(p.pipe, os.O_WRONLY, 0) // as an agent that dies in the middle
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(frame[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if ok, err := Deliver(within(t), p.pipe, secrets, p.waiting); !ok || err != nil {
			t.Fatalf("cut at %d: got delivered=%v, %v", cut, ok, err)
		}
		if got := strings.TrimSpace(p.output(t)); got != "s3cret" {
			t.Errorf("cut at %d: got %q, want s3cret", cut, got)
		}
	}
}

func TestAMissingCommandIsExitCode127(t *testing.T) {
	p := startInit(t, "no-such-command")
	if ok, err := Deliver(within(t), p.pipe, nil, p.waiting); !ok || err != nil {
		t.Fatalf("got delivered=%v, %v", ok, err)
	}
	if out := p.output(t); p.cmd.ProcessState.ExitCode() != 127 {
		t.Errorf("got exit code %d, want 127; %s", p.cmd.ProcessState.ExitCode(), out)
	}
}

func TestOnlyRootReachesThePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s", "env")
	if err := MakeFIFO(path); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Dir(path))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: got %v, %v; want 0700", st.Mode(), err)
	}
	if err := MakeFIFO(path); err != nil {
		t.Errorf("making it twice: %v", err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(f, secrets[0]); strings.Contains(got, "s3cret") {
			t.Errorf("%s printed %q", f, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	frame, err := encode(secrets[:1])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Fuzz(func(t *testing.T, b []byte) {
		vars, err := decode(bytes.NewReader(b))
		if err == nil {
			if _, err := encode(vars); err != nil && !strings.Contains(err.Error(), "not a name") {
				t.Errorf("decoded what cannot be encoded: %v", err)
			}
		}
	})
}
