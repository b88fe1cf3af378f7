package gateway

import "testing"

// The view may lag: what this member opened itself decides, and the older side is told the number to start above.
func TestAnOlderSessionNeverTakesOverAndLearnsTheNumber(t *testing.T) {
	g := &Gateway{sessions: map[string]*session{}}
	if got := g.open("pi-01", 5); got != 5 {
		t.Fatalf("open 5: got %d, want 5", got)
	}
	current := g.sessions["pi-01"]
	if got := g.open("pi-01", 4); got != 5 {
		t.Errorf("open 4 after 5: got %d, want 5", got)
	}
	if g.sessions["pi-01"] != current {
		t.Error("the older session took over")
	}
	if got := g.open("pi-01", 6); got != 6 {
		t.Errorf("open 6 after 5: got %d, want 6", got)
	}
	select {
	case <-current.ended:
	default:
		t.Error("session 5 goes on after 6 took over")
	}
}
