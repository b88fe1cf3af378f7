package report

import (
	"os"
	"strings"
	"testing"
)

func TestAnAimIsForTheRatioOrWithoutAPeerForOurs(t *testing.T) {
	for _, tt := range []struct {
		s    Samples
		ours float64
		ok   bool
	}{
		{Samples{Name: "ratio reached", Aim: 2, Ours: []float64{9, 20, 30}, Peer: []float64{10}}, 20, true},
		{Samples{Name: "ratio missed", Aim: 2, Ours: []float64{19}, Peer: []float64{10}}, 19, false},
		{Samples{Name: "less is better", Aim: 0.5, Less: true, Ours: []float64{4, 6}, Peer: []float64{10}}, 5, true},
		{Samples{Name: "alone, missed", Aim: 64, Less: true, Alone: true, Ours: []float64{65}}, 65, false},
		{Samples{Name: "alone, ok", Aim: 64, Less: true, Alone: true, Ours: []float64{64}}, 64, true},
		{Samples{Name: "never measured", Aim: 64, Less: true, Alone: true}, 0, true},
	} {
		f := tt.s.Figure("peer")
		if f.Ours != tt.ours || f.OK != tt.ok {
			t.Errorf("%s: got %v, ok=%v, want %v, ok=%v", tt.s.Name, f.Ours, f.OK, tt.ours, tt.ok)
		}
		var b strings.Builder
		if err := Print(&b, []Figure{f}); err != nil {
			t.Fatal(err)
		}
		if missed := strings.Contains(b.String(), "missed"); missed == tt.ok {
			t.Errorf("%s: the table says missed=%v:\n%s", tt.s.Name, missed, b.String())
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	var u Usage
	if err := u.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if u.Resident < 1 || u.Own <= 0 || u.Own > u.Resident {
		t.Errorf("got %+v, want some MiB resident and a part of them own", u)
	}
}
