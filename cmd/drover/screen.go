package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// screen shows a state that changes: on a terminal one block that is redrawn, elsewhere a stamped line for each change.
type screen struct {
	w     io.Writer
	tty   bool
	width func() int
	now   func() time.Time
	drawn int
	last  string
}

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, now: time.Now, width: func() int { return 80 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.tty = true
		s.width = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 10 {
				return n
			}
			return 80
		}
	}
	return s
}

func (s *screen) show(block []string, line string) {
	if s.tty {
		s.redraw(block)
		return
	}
	if line != s.last {
		s.last = line
		fmt.Fprintf(s.w, "%s %s\n", s.now().UTC().Format(time.RFC3339), line)
	}
}

// redraw goes up over what it drew before and draws again; lines are cut to the width, since a wrapped line would make the
// count wrong.
func (s *screen) redraw(block []string) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	width := s.width()
	for _, l := range block {
		if r := []rune(l); len(r) > width {
			l = string(r[:width])
		}
		b.WriteString("\r\x1b[2K" + l + "\n")
	}
	for i := len(block); i < s.drawn; i++ {
		b.WriteString("\r\x1b[2K\n")
	}
	if extra := s.drawn - len(block); extra > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", extra)
	}
	s.drawn = len(block)
	_, _ = io.WriteString(s.w, b.String()) // a terminal that went away ends the program by SIGPIPE or SIGHUP
}
