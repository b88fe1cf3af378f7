package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLaterOfTwoContactsStaysWhoeverTellsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewContacts()
		if _, ok := c.Last("d"); ok {
			t.Error("a contact before any")
		}
		c.Touch("d", 1)
		time.Sleep(10 * time.Second) // the bubble's clock
		c.Merge([]Contact{{Device: "d", Session: 1, AgeMillis: 20_000}})
		if age, _ := c.Last("d"); age != 10*time.Second {
			t.Errorf("age %s, want 10s: the word of the other member is older", age)
		}
		c.Merge([]Contact{{Device: "d", Session: 1, AgeMillis: 3_000}})
		if age, _ := c.Last("d"); age != 3*time.Second {
			t.Errorf("age %s, want 3s", age)
		}
		if f := c.Fresh(false); len(f) != 1 || f[0].AgeMillis != 3_000 {
			t.Errorf("fresh %v, want the one that was heard of here", f)
		}
		if f := c.Fresh(false); len(f) != 0 {
			t.Errorf("fresh again: %v, want none", f)
		}
		if f := c.Fresh(true); len(f) != 1 {
			t.Errorf("all: %v, want one", f)
		}
	})
}
