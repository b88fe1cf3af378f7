package kv

import (
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// TestAFullStoreIsToldAsSuch: not as a fault of the hub's own.
func TestAFullStoreIsToldAsSuch(t *testing.T) {
	full := &store.QuotaError{What: "contents", Used: 11, Max: 10, Low: 8}
	got := failureOf(fmt.Errorf("apply: %w", full)).error()
	if !fault.Is(got, fault.TooLarge) || got.Error() != "apply: "+full.Error() {
		t.Errorf("got %v of class %v, want the words of %v and TooLarge", got, fault.ClassOf(got), full)
	}
}
