package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
)

func TestTheCostOfABodyIsBounded(t *testing.T) {
	// Were each token's column counted from the line's beginning, this would take many seconds.
	text := `{"data":{"k":"` + strings.Repeat("é", 1000) + `"},"x":[` + strings.Repeat("1,", 40_000) + "1]}"
	if _, err := DecodeJSON(KindConfigMap, []byte(text)); !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), "x: unknown field") {
		t.Errorf("40,000 values: %v, want the unknown field named", err)
	}
	if _, err := DecodeJSON(KindConfigMap, []byte("["+strings.Repeat("1,", 100_000)+"1]")); !errors.Is(err, fault.BadRequest) || !strings.Contains(err.Error(), "more than 100000 values") {
		t.Errorf("100,001 values: %v, want them refused", err)
	}
}

func TestAFileFullOfErrorsIsReadToTheHundredthOnly(t *testing.T) {
	got := errorsOf(t, strings.Repeat("---\na\n", 1000))
	if last := got[len(got)-1]; len(got) != maxErrors+2 || !strings.Contains(last, "the rest of the file was not read") {
		t.Errorf("%d errors, the last %q; want %d and a note", len(got), last, maxErrors+2)
	}
}

func TestColumnsCountCharacters(t *testing.T) {
	_, err := DecodeManifests("f.json", []byte("{\"apiVersion\": \"v1\", \"kind\": \"Namespace\",\n \"é\": {}, \"metadata\": {\"name\": 3}}"))
	if err == nil || !strings.Contains(err.Error(), "f.json:2:32: metadata.name") {
		t.Errorf("got %v, want the name at 2:32", err)
	}
}
