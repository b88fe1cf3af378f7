package consensus

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvelopeCarriesIdsAndCommands(t *testing.T) {
	data := encodeEnvelope(42, []proposal{{id: 1, data: []byte("a")}, {id: 300, data: nil}, {id: 7, data: []byte("ccc")}})
	got, err := decodeEnvelope(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.proposer != 42 {
		t.Errorf("proposer = %d, want 42", got.proposer)
	}
	if diff := cmp.Diff([]uint64{1, 300, 7}, got.ids); diff != "" {
		t.Errorf("ids differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "", "ccc"}, []string{string(got.commands[0]), string(got.commands[1]), string(got.commands[2])}); diff != "" {
		t.Errorf("commands differ (-want +got):\n%s", diff)
	}
}

func FuzzEnvelopeNeverPanicsAndAcceptsOnlyWhole(f *testing.F) {
	whole := encodeEnvelope(1, []proposal{{id: 1, data: []byte("abc")}, {id: 2, data: []byte("d")}})
	for i := range whole {
		f.Add(whole[:i])
	}
	f.Add(append(whole, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEnvelope(data)
		if err != nil && !errors.Is(err, errEnvelope) {
			t.Errorf("error %v is not an envelope's", err)
		}
		if err == nil && len(e.ids) != len(e.commands) {
			t.Errorf("%d ids for %d commands", len(e.ids), len(e.commands))
		}
	})
}

func FuzzFrameNeverPanics(f *testing.F) {
	frame, err := encodeControl(&control{From: Member{ID: 1, Name: "h1"}, To: 2, Query: &query{Nonce: 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	f.Add([]byte{frameRaft})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, c, err := decodeFrame(data)
		if (err == nil) == (m == nil && c == nil) {
			t.Errorf("decode = %v, %v, %v; want a message or an error", m, c, err)
		}
	})
}
