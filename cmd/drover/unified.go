package main

import (
	"fmt"
	"strings"
)

const (
	diffContext = 3    // unchanged lines around a change
	maxEdits    = 2000 // changed lines up to which the shortest diff is looked for; beyond, the changed middle stands as a whole
)

// edit is a run of lines: kept (' '), taken out ('-') or put in ('+').
type edit struct {
	op    byte
	lines []string
}

// unified is the difference of two texts in the form that patch reads; "" where there is none.
func unified(nameA, nameB, a, b string) string {
	if a == b {
		return ""
	}
	hunks := hunksOf(edits(splitLines(a), splitLines(b)))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	for _, h := range hunks {
		h.write(&out)
	}
	return out.String()
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// edits turns a into b: equal ends are cut off, and Myers' greedy search finds the shortest way through the middle.
func edits(a, b []string) []edit {
	var out []edit
	add := func(op byte, lines ...string) {
		switch n := len(out); {
		case len(lines) == 0:
		case n > 0 && out[n-1].op == op:
			out[n-1].lines = append(out[n-1].lines, lines...)
		default:
			out = append(out, edit{op, append([]string(nil), lines...)})
		}
	}
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	add(' ', a[:head]...)
	middleA, middleB := a[head:len(a)-tail], b[head:len(b)-tail]
	if trace := myers(middleA, middleB); trace != nil {
		walk(middleA, middleB, trace, add)
	} else {
		add('-', middleA...)
		add('+', middleB...)
	}
	add(' ', a[len(a)-tail:]...)
	return out
}

// myers returns, for each number of edits, how far each diagonal was reached; nil when it takes more than maxEdits.
func myers(a, b []string) [][]int {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	at := make([]int, 2*limit+2)
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int(nil), at...))
		for k := -d; k <= d; k += 2 {
			x := further(at, limit, k, d)
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			at[limit+k] = x
			if x >= n && x-k >= m {
				return trace
			}
		}
	}
	return nil
}

// further is where diagonal k is entered with the d-th edit: by an insertion from above or a deletion from the left.
func further(at []int, limit, k, d int) int {
	if k == -d || k != d && at[limit+k-1] < at[limit+k+1] {
		return at[limit+k+1]
	}
	return at[limit+k-1] + 1
}

// walk follows the trace back from the end and adds the edits in order.
func walk(a, b []string, trace [][]int, add func(byte, ...string)) {
	type step struct {
		op   byte
		line string
	}
	var back []step
	limit := (len(trace[0]) - 2) / 2
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		at, k := trace[d], x-y
		fromX, fromY := 0, 0
		if d > 0 {
			prev := k - 1
			if k == -d || k != d && at[limit+k-1] < at[limit+k+1] {
				prev = k + 1
			}
			fromX = at[limit+prev]
			fromY = fromX - prev
		}
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			back = append(back, step{' ', a[x]})
		}
		switch {
		case d == 0:
		case x > fromX:
			x--
			back = append(back, step{'-', a[x]})
		default:
			y--
			back = append(back, step{'+', b[y]})
		}
	}
	for i := len(back) - 1; i >= 0; i-- {
		add(back[i].op, back[i].line)
	}
}

// hunk is changes with what stands around them; lines count from 1.
type hunk struct {
	startA, startB, countA, countB int
	lines                          []string
}

func (h *hunk) add(op byte, lines []string) {
	for _, l := range lines {
		h.lines = append(h.lines, string(op)+l)
	}
	if op != '+' {
		h.countA += len(lines)
	}
	if op != '-' {
		h.countB += len(lines)
	}
}

func (h *hunk) write(out *strings.Builder) {
	begin := func(start, count int) int {
		if count == 0 {
			return start - 1 // as patch has it of an empty side
		}
		return start
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", begin(h.startA, h.countA), h.countA, begin(h.startB, h.countB), h.countB)
	for _, l := range h.lines {
		out.WriteString(l + "\n")
	}
}

func hunksOf(list []edit) []*hunk {
	var out []*hunk
	var open *hunk
	lineA, lineB := 1, 1
	for i, e := range list {
		if e.op != ' ' {
			if open == nil {
				open = &hunk{startA: lineA, startB: lineB}
				out = append(out, open)
			}
			open.add(e.op, e.lines)
		} else {
			open = between(&out, open, e.lines, i == len(list)-1, lineA, lineB)
		}
		if e.op != '+' {
			lineA += len(e.lines)
		}
		if e.op != '-' {
			lineB += len(e.lines)
		}
	}
	return out
}

// between puts kept lines after the open hunk, and before the next where there is one.
func between(out *[]*hunk, open *hunk, lines []string, last bool, lineA, lineB int) *hunk {
	if open != nil {
		if !last && len(lines) <= 2*diffContext {
			open.add(' ', lines)
			return open
		}
		open.add(' ', lines[:min(diffContext, len(lines))])
	}
	if last {
		return nil
	}
	skip := max(0, len(lines)-diffContext)
	next := &hunk{startA: lineA + skip, startB: lineB + skip}
	next.add(' ', lines[skip:])
	*out = append(*out, next)
	return next
}
