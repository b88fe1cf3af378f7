package apiserver_test

import (
	"encoding/json"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// TestF41TheThreeWrongCursorsAreToldApartByTheAPI: a client that watches from a revision learns by code and reason whether to list
// again, or to ask another member, and a watch that is open when the epoch changes learns it too.
func TestF41TheThreeWrongCursorsAreToldApartByTheAPI(t *testing.T) {
	h := startHub(t, nil)
	b := h.admin()
	old := decoded[api.ConfigMap](t, b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"a"}}`))).Metadata.ResourceVersion
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"b"}}`))
	if err := h.backend.Compact(t.Context(), h.backend.Revision()); err != nil {
		t.Fatal(err)
	}
	have := h.backend.Revision()
	refused := func(what, revision string, code int, class fault.Class) {
		t.Helper()
		st := decoded[fault.Status](t, b.want(code, b.get(configMaps+"?watch=1&resourceVersion="+revision)))
		if got := fault.ClassOf(fault.FromStatus(st)); got != class || st.Reason != class.Reason() {
			t.Errorf("%s: got class %q and reason %q, want %q and %q", what, got, st.Reason, class, class.Reason())
		}
	}
	refused("a revision that is compacted", old, 410, fault.Expired)
	refused("a revision that is ahead", (have + 100).String(), 504, fault.Ahead)
	refused("a revision of an epoch that never was", store.MakeRevision(have.Epoch()+1, 1).String(), 410, fault.OtherEpoch)

	s := b.stream(configMaps + "?watch=1&resourceVersion=" + have.String())
	res, err := h.backend.Propose(t.Context(), &store.Command{Actor: "hub:test", NewEpoch: &store.Epoch{Number: have.Epoch() + 1, ID: "restored"}})
	if err != nil || res.Err != nil {
		t.Fatal(err, res.Err)
	}
	e := s.next()
	var st fault.Status
	if err := json.Unmarshal(e.Object, &st); err != nil {
		t.Fatal(err)
	}
	if got := fault.ClassOf(fault.FromStatus(st)); e.Type != "ERROR" || st.Code != 410 || got != fault.OtherEpoch {
		t.Errorf("a watch when the epoch changes: got %s with code %d and class %q, want an error of code 410 and class %q", e.Type, st.Code, got, fault.OtherEpoch)
	}
	refused("a revision of the epoch before", have.String(), 410, fault.OtherEpoch)

	// What all three lead to in the end: one list, and a watch from it.
	list := decoded[struct {
		Metadata struct{ ResourceVersion string }
	}](t, b.want(200, b.get(configMaps)))
	s = b.stream(configMaps + "?watch=1&resourceVersion=" + list.Metadata.ResourceVersion)
	b.want(201, b.send("POST", configMaps, `{"metadata":{"name":"c"}}`))
	s.want("ADDED", "c")
}
