package api

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimeHasSecondResolutionInUTC(t *testing.T) {
	at := time.Date(2027, 1, 31, 1, 2, 3, 999, time.FixedZone("x", 3600))
	b, err := json.Marshal(TimeOf(at))
	if want := `"2027-01-31T00:02:03Z"`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
	if !TimeOf(time.Time{}).IsZero() {
		t.Error("the zero time is not zero")
	}
	if b, _ := json.Marshal(Time{}); string(b) != "null" {
		t.Errorf("a time that is not set is %s, want null", b)
	}
	for _, bad := range []string{`3`, `"soon"`, `"2027-01-31"`, `{}`} {
		var got Time
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s: got %v, want an error", bad, got)
		}
	}
}

func TestDurationNeedsAUnit(t *testing.T) {
	var d Duration
	if err := json.Unmarshal([]byte(`"15m"`), &d); err != nil || d.Duration != 15*time.Minute {
		t.Errorf("15m = %v, %v", d, err)
	}
	for _, bad := range []string{`30`, `"30"`, `"x"`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s: got %v, want an error", bad, d)
		}
	}
}

func TestPercentagesRoundDownButNotBelowTheLeast(t *testing.T) {
	for _, c := range []struct {
		text        string
		total, want int32
	}{{`3`, 100, 3}, {`"10%"`, 25, 2}, {`"10%"`, 5, 1}, {`"100%"`, 7, 7}, {`0`, 7, 1}, {`"10%"`, 2_000_000_000, 200_000_000}} {
		var v IntOrPercent
		if err := json.Unmarshal([]byte(c.text), &v); err != nil {
			t.Fatal(err)
		}
		if got := v.Of(c.total, 1); got != c.want {
			t.Errorf("%s of %d = %d, want %d", c.text, c.total, got, c.want)
		}
	}
	for _, bad := range []string{`-1`, `"101%"`, `"-1%"`, `"3"`, `1.5`, `"%"`, `3000000000`} {
		var v IntOrPercent
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s: got %+v, want an error", bad, v)
		}
	}
}
