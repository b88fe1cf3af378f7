package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen shows a state that changes: on a terminal one block that is redrawn, elsewhere a stamped line for each change.
type screen struct {
	w     io.Writer
	tty   bool
	width func() int // of the terminal, in columns
	now   func() time.Time
	drawn []int  // lengths of the lines that stand on the terminal, in columns
	last  string // what the last stamped line was about
}

const defaultWidth = 80 // columns, of a terminal that does not say

func newScreen(w io.Writer) *screen {
	s := &screen{w: w, now: time.Now, width: func() int { return defaultWidth }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.tty = true
		s.width = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 10 {
				return n
			}
			return defaultWidth
		}
	}
	return s
}

// show draws the block, or writes the line unless it is about the same as the last one.
func (s *screen) show(block []string, about, line string) {
	if s.tty {
		s.redraw(block)
		return
	}
	if about != s.last {
		s.last = about
		fmt.Fprintf(s.w, "%s %s\n", s.now().UTC().Format(time.RFC3339), plain(line))
	}
}

// redraw goes up over what it drew before, clears from there to the end, and draws again in one write. Lines are cut to one column
// less than the width, so that none wraps; those drawn before a terminal became narrower take more rows now.
func (s *screen) redraw(block []string) {
	width := s.width()
	rows := 0
	for _, n := range s.drawn {
		rows += max(1, (n+width-1)/width)
	}
	var b strings.Builder
	if rows > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", rows)
	}
	b.WriteString("\r\x1b[J")
	s.drawn = s.drawn[:0]
	for _, l := range block {
		l = clip(plain(l), width-1)
		b.WriteString(l + "\n")
		s.drawn = append(s.drawn, utf8.RuneCountInString(l))
	}
	_, _ = io.WriteString(s.w, b.String()) // a terminal that went away ends the program by SIGPIPE or SIGHUP
}
