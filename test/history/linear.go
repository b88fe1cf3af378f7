package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/drover-fleet/drover/store"
)

// CheckLinearizable holds that the operations of each key can be put into one order that agrees with real time, with every value
// read or compared, and with what became of each. Writes whose outcome their client never learned took effect if and only if the
// ledger names their request; those that it lacks are left out, which keeps the search small.
func CheckLinearizable(ops []Op, changes []Change, patience time.Duration) []Violation {
	v := violations{check: Linearizable}
	if len(ops) == 0 {
		return nil
	}
	model := keyModel()
	result, info := porcupine.CheckOperationsVerbose(model, operations(ops, changes), patience)
	switch result {
	case porcupine.Illegal:
		v.add("%s", explain(model, info))
	case porcupine.Unknown:
		v.add("not decided within %v for %d operations", patience, len(ops))
	}
	return append(v.list, checkRealTime(ops)...)
}

// register is the state of one key.
type register struct {
	value string
	rev   store.Revision
}

func keyModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			var keys []string
			for _, o := range all {
				k := o.Input.(Op).Key
				if byKey[k] == nil {
					keys = append(keys, k)
				}
				byKey[k] = append(byKey[k], o)
			}
			slices.Sort(keys)
			var out [][]porcupine.Operation
			for _, k := range keys {
				out = append(out, byKey[k])
			}
			return out
		},
		Init: func() any { return register{} },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(register), input.(Op))
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(Op)) },
		DescribeState:     func(state any) string { s := state.(register); return fmt.Sprintf("%q at %d", s.value, s.rev) },
	}
}

// step tells whether the operation fits the state, and what stands afterwards.
func step(s register, o Op) (bool, register) {
	switch {
	case o.Outcome == Refused:
		return s.rev != o.If, s
	case o.Kind == Read:
		return s.value == o.Value && s.rev == o.Revision, s
	case o.Kind == Delete && o.Revision == 0:
		return s.rev == 0, s // there was nothing to delete
	case o.Kind == Delete:
		return s.rev != 0, register{}
	case o.Kind == CompareAndPut && s.rev != o.If:
		return false, s
	}
	return o.Revision > s.rev, register{o.Value, o.Revision}
}

// operations are those that took effect or saw something. An unknown one may take effect at any time after its call.
func operations(ops []Op, changes []Change) []porcupine.Operation {
	written := map[string]Change{}
	for _, c := range changes {
		written[c.Key+"\x00"+c.Request] = c
	}
	var out []porcupine.Operation
	for _, o := range ops {
		end := int64(o.Return)
		switch o.Outcome {
		case Failed:
			continue
		case Unknown:
			c, ok := written[o.Key+"\x00"+o.Request]
			if o.Kind == Read || !ok {
				continue
			}
			// It was seen to have taken effect by then.
			o.Revision, end = c.Revision, int64(c.At)
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Call), Return: end})
	}
	return out
}

func describe(o Op) string {
	names := map[Kind]string{Read: "read", Put: "put", Delete: "delete", CompareAndPut: "compare-and-put"}
	return fmt.Sprintf("client %d %s %s %q if %d: revision %d, outcome %d, %v to %v",
		o.Client, names[o.Kind], o.Key, o.Value, o.If, o.Revision, o.Outcome, o.Call, o.Return)
}

// explain shows the operation that fits nowhere after the longest order that was found.
func explain(_ porcupine.Model, info porcupine.LinearizationInfo) string {
	for _, partition := range info.PartialLinearizationsOperations() {
		var longest []porcupine.Operation
		for _, p := range partition {
			if len(p) > len(longest) {
				longest = p
			}
		}
		if len(longest) > 0 {
			return "no order of operations fits; the longest that does ends with " + describe(longest[len(longest)-1].Input.(Op))
		}
	}
	return "no order of operations fits"
}

// checkRealTime holds what revisions alone show: a write that was acknowledged before another began has the lower revision, over
// all keys.
func checkRealTime(ops []Op) []Violation {
	v := violations{check: Linearizable}
	var writes []Op
	for _, o := range ops {
		if o.Outcome == Done && o.Kind != Read && o.Revision != 0 {
			writes = append(writes, o)
		}
	}
	byCall, byReturn := slices.Clone(writes), writes
	slices.SortStableFunc(byCall, func(a, b Op) int { return int(a.Call - b.Call) })
	slices.SortStableFunc(byReturn, func(a, b Op) int { return int(a.Return - b.Return) })
	var newest Op
	for _, o := range byCall {
		for len(byReturn) > 0 && byReturn[0].Return < o.Call {
			if byReturn[0].Revision > newest.Revision {
				newest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if o.Revision < newest.Revision {
			v.add("%s is below what was acknowledged before: %s", describe(o), describe(newest))
		}
	}
	return v.list
}
