package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
)

// glass is a terminal of a width: it understands what a screen sends and wraps what is too long.
type glass struct {
	t     *testing.T
	width int
	rows  [][]rune
	y, x  int
}

func (g *glass) Write(p []byte) (int, error) {
	s := []rune(string(p))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\x1b':
			end := i + 2
			for s[end] >= '0' && s[end] <= '9' {
				end++
			}
			g.command(s[end], string(s[i+2:end]))
			i = end
		case '\r':
			g.x = 0
		case '\n':
			g.y, g.x = g.y+1, 0
		default:
			g.put(s[i])
		}
	}
	return len(p), nil
}

func (g *glass) command(c rune, arg string) {
	switch c {
	case 'A':
		n, _ := strconv.Atoi(arg)
		if g.y -= n; g.y < 0 {
			g.t.Errorf("the cursor went %d rows above the top", -g.y)
			g.y = 0
		}
	case 'J':
		if g.y < len(g.rows) {
			g.rows = g.rows[:g.y]
		}
	default:
		g.t.Errorf("unknown command %q", c)
	}
}

func (g *glass) put(r rune) {
	if g.x == g.width {
		g.y, g.x = g.y+1, 0
	}
	for len(g.rows) <= g.y {
		g.rows = append(g.rows, nil)
	}
	g.rows[g.y] = append(g.rows[g.y][:g.x], r)
	g.x++
}

// narrow makes the terminal narrower; what is wider wraps, as terminals do.
func (g *glass) narrow(width int) {
	old := g.rows
	g.rows, g.width, g.y, g.x = nil, width, 0, 0
	for _, row := range old {
		for _, r := range row {
			g.put(r)
		}
		g.y, g.x = g.y+1, 0
	}
}

func (g *glass) text() []string {
	var out []string
	for _, r := range g.rows {
		out = append(out, string(r))
	}
	return out
}

func TestATerminalShowsOneBlockThatIsRedrawn(t *testing.T) {
	g := &glass{t: t, width: 20}
	s := &screen{w: g, tty: true, width: func() int { return g.width }, now: time.Now}
	expect := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(want, g.text()); d != "" {
			t.Errorf("the terminal shows (-want +got):\n%s", d)
		}
	}
	s.show([]string{"one", "two", "three"}, "", "")
	expect("one", "two", "three")
	s.show([]string{"ONE", "a line that is longer than the terminal"}, "", "")
	expect("ONE", "a line that is l...")
	s.show([]string{"one", "two", "three", "four"}, "", "")
	expect("one", "two", "three", "four")
	s.show([]string{"a cause with\na break and \x1b[2J a trick"}, "", "")
	expect("a cause with a b...")
	s.show([]string{"eighteen columns..", "short"}, "", "")
	g.narrow(10)
	s.show([]string{"after", "it", "shrank"}, "", "")
	expect("after", "it", "shrank")
}

func TestElsewhereOneStampedLineStandsForEachChange(t *testing.T) {
	var b strings.Builder
	at := time.Date(2026, 11, 30, 3, 20, 0, 0, time.FixedZone("far", 7200))
	s := newScreen(&b)
	s.now = func() time.Time { return at }
	for _, step := range [][2]string{{"1/3", "1/3; waiting for a"}, {"1/3", "1/3; waiting for b"}, {"2/3", "2/3; waiting\nfor c"}, {"1/3", "1/3"}} {
		s.show([]string{"never shown"}, step[0], step[1])
		at = at.Add(time.Second)
	}
	want := "2026-11-30T01:20:00Z 1/3; waiting for a\n2026-11-30T01:20:02Z 2/3; waiting for c\n2026-11-30T01:20:03Z 1/3\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestAgeIsInTheLargestUnitThatSaysEnough(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := age(api.TimeOf(now.Add(-d)), now); got != want {
			t.Errorf("%s ago: got %s, want %s", d, got, want)
		}
	}
	if got := age(api.Time{}, now); got != "-" {
		t.Errorf("never: got %s, want -", got)
	}
}

func TestWhatOthersSayCannotMoveTheCursor(t *testing.T) {
	if got, want := plain("a\tb\r\nc\x1b[2J\x07\u202edé"), "a b  c\uFFFD[2J\uFFFD\uFFFDdé"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
