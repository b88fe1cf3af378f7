package api

import (
	"testing"
	"time"
)

func TestTransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	t1, t2 := TimeOf(time.Unix(100, 0)), TimeOf(time.Unix(200, 0))
	var list []Condition
	if !SetCondition(&list, Condition{Type: "Ready", Status: False, Reason: "Starting"}, t1) {
		t.Error("a new condition is no change")
	}
	if SetCondition(&list, Condition{Type: "Ready", Status: False, Reason: "Starting"}, t2) {
		t.Error("the same condition is a change")
	}
	if !SetCondition(&list, Condition{Type: "Ready", Status: False, Reason: "Pulling"}, t2) || !list[0].LastTransitionTime.Equal(t1.Time) {
		t.Errorf("new reason: %+v, want a change that keeps %v", list[0], t1)
	}
	if !SetCondition(&list, Condition{Type: "Ready", Status: True}, t2) || !list[0].LastTransitionTime.Equal(t2.Time) || list[0].Reason != "" {
		t.Errorf("new status: %+v, want it at %v", list[0], t2)
	}
	SetCondition(&list, Condition{Type: "Connected", Status: True}, t2)
	if len(list) != 2 || FindCondition(list, "Connected") == nil || FindCondition(list, "Gone") != nil {
		t.Errorf("list is %+v, want Ready and Connected", list)
	}
	if !ConditionIs(list, "Ready", True) || !ConditionIs(list, "Gone", Unknown) || ConditionIs(list, "Gone", False) {
		t.Error("ConditionIs: want Ready True, and an absent condition Unknown")
	}
	if !RemoveCondition(&list, "Ready") || RemoveCondition(&list, "Ready") || len(list) != 1 || list[0].Type != "Connected" {
		t.Errorf("after removing Ready: %+v", list)
	}
}
