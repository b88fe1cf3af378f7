package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/client/remote"
)

// TestDoctorFindsTheSameInTheSameOrder: programs compare what -o json says.
func TestDoctorFindsTheSameInTheSameOrder(t *testing.T) {
	answers := map[string]error{}
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5"} {
		answers[name] = errors.New("no route to host")
	}
	var first []remote.Finding
	for range 20 {
		d := &diagnosis{}
		d.fromHere(answers)
		if first == nil {
			first = d.findings
		}
		if !slices.Equal(d.findings, first) || len(first) != len(answers) {
			t.Fatalf("members that cannot be reached from here: got %v, want %v each time", d.findings, first)
		}
	}
}

// TestDoctorNamesTheFlagOfTheQuotaThatIsFull: contents and events have one each.
func TestDoctorNamesTheFlagOfTheQuotaThatIsFull(t *testing.T) {
	full := remote.HubQuota{Used: 90, Low: 80, High: 90, Max: 100, Full: true}
	for _, tt := range []struct {
		name string
		m    remote.HubMember
		flag string
	}{
		{"contents", remote.HubMember{Name: "h1", Data: full}, " --quota"},
		{"events", remote.HubMember{Name: "h1", Events: full}, " --event-quota"},
	} {
		d := &diagnosis{}
		d.room(&tt.m)
		if len(d.findings) != 1 || !strings.HasSuffix(d.findings[0].Do, tt.flag) || !strings.Contains(d.findings[0].Do, "drover hub compact") {
			t.Errorf("%s full: got %+v, want one finding that says to compact or start with a larger%s", tt.name, d.findings, tt.flag)
		}
	}
}
