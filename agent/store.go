package agent

import (
	"fmt"

	"github.com/drover-fleet/drover/agent/state"
)

// Store is the agent's two files: the bundle and what it remembers.
type Store struct {
	codec   *state.Codec
	bundle  *state.File
	runtime *state.File
}

// OpenStore names the files in dir. Nothing is read yet.
func OpenStore(dir string, codec *state.Codec) *Store {
	r := state.NewReserve(dir)
	return &Store{codec, state.NewFile(dir, "bundle", MaxBundle).With(r), state.NewFile(dir, "runtime", MaxRuntime).With(r)}
}

// Load reads both. Bad files never fail it: they are set aside, and what was lost is said in Problems.
func (s *Store) Load() (Loaded, error) {
	var out Loaded
	b, err := s.bundle.Load()
	if err != nil {
		return out, err
	}
	out.Problems = append(out.Problems, problems(b)...)
	if out.Bundle, err = DecodeBundle(s.codec, b.Payload); err != nil {
		out.Problems = append(out.Problems, err.Error())
	}
	kept, err := DecodeBundle(s.codec, s.bundle.LoadPrevious())
	if err == nil && b.Origin != state.Previous {
		out.Kept = kept
	}
	if out.Bundle == nil && out.Kept != nil { // whole, but not understood: the one before is
		out.Bundle, out.Kept, b.Origin = out.Kept, nil, state.Previous
	}
	out.BundleLost = out.Bundle == nil || b.Origin == state.Previous
	r, err := s.runtime.Load()
	if err != nil {
		return out, err
	}
	out.Problems = append(out.Problems, problems(r)...)
	if r.Payload != nil {
		out.Runtime = &Runtime{}
		if err := s.codec.Decode(r.Payload, out.Runtime); err != nil {
			out.Problems, out.Runtime = append(out.Problems, err.Error()), nil
		}
	}
	return out, nil
}

func problems(l state.Loaded) []string {
	var out []string
	for _, p := range l.Problems {
		out = append(out, fmt.Sprintf("%v; used: %s", p, l.Origin))
	}
	return out
}

// SaveBundle carries out the effect.
func (s *Store) SaveBundle(e SaveBundle) BundleSaved {
	p, err := EncodeBundle(s.codec, e.Bundle)
	switch {
	case err != nil:
	case e.Rotate:
		err = s.bundle.Rotate(p)
	default:
		err = s.bundle.Save(p)
	}
	return BundleSaved{Bundle: e.Bundle, Err: err}
}

// SaveRuntime carries out the effect.
func (s *Store) SaveRuntime(e SaveRuntime) RuntimeSaved {
	p, err := s.codec.Encode(e.Runtime)
	if err == nil {
		err = s.runtime.Save(p)
	}
	return RuntimeSaved{Err: err}
}
