package api

// FindCondition returns the condition of a type, or nil. It points into the list.
func FindCondition(list []Condition, typ string) *Condition {
	for i := range list {
		if list[i].Type == typ {
			return &list[i]
		}
	}
	return nil
}

// ConditionIs reports whether the condition of a type has the status; an absent condition is Unknown.
func ConditionIs(list []Condition, typ, status string) bool {
	if c := FindCondition(list, typ); c != nil {
		return c.Status == status
	}
	return status == Unknown
}

// SetCondition puts c into the list, in place of the one of its type, and reports whether that changed anything.
// LastTransitionTime becomes now when the status changes, and stays otherwise. The list must be the caller's own: it may be
// changed in place.
func SetCondition(list *[]Condition, c Condition, now Time) bool {
	c.LastTransitionTime = now
	old := FindCondition(*list, c.Type)
	if old == nil {
		*list = append(*list, c)
		return true
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	if *old == c {
		return false
	}
	*old = c
	return true
}

// RemoveCondition takes the condition of a type out of the list and reports whether it was there.
func RemoveCondition(list *[]Condition, typ string) bool {
	for i := range *list {
		if (*list)[i].Type == typ {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return true
		}
	}
	return false
}
