package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Figure is one line of the table: medians of both sides. With a peer the aim is for the ratio ours/peer, without one for ours.
type Figure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Ours     float64  `json:"ours"`
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name"`
	Ratio    *float64 `json:"ratio"`
	Aim      *float64 `json:"aim"`
	OK       bool     `json:"ok"`

	less bool // less is better
	runs int  // of ours
}

// Samples are the runs of one figure on both sides.
type Samples struct {
	Name, Unit string
	Aim        float64 // 0 = none
	Less       bool    // less is better
	Alone      bool    // there is no peer: the aim is for ours
	Ours, Peer []float64
}

// Keep adds a run of one side.
func (s *Samples) Keep(mine bool, v float64) {
	if mine {
		s.Ours = append(s.Ours, v)
	} else {
		s.Peer = append(s.Peer, v)
	}
}

// Figure is what the runs come to.
func (s *Samples) Figure(peerName string) Figure {
	f := Figure{Name: s.Name, Unit: s.Unit, Ours: Median(s.Ours), OK: true, less: s.Less, runs: len(s.Ours)}
	if len(s.Peer) > 0 {
		peer := Median(s.Peer)
		f.Peer, f.PeerName = &peer, peerName
		if peer != 0 {
			ratio := f.Ours / peer
			f.Ratio = &ratio
		}
	}
	judged := f.Ratio
	if s.Alone {
		judged = &f.Ours
	}
	if s.Aim != 0 && judged != nil && len(s.Ours) > 0 {
		f.Aim = &s.Aim
		f.OK = *judged >= s.Aim
		if s.Less {
			f.OK = *judged <= s.Aim
		}
	}
	return f
}

// Median is 0 of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Print writes the table. Without any peer it has no columns for one.
func Print(w io.Writer, figures []Figure) error {
	peerName := ""
	for _, f := range figures {
		if f.PeerName != "" {
			peerName = f.PeerName
		}
	}
	p := printer{w: w, peer: peerName}
	p.line("figure", "unit", "drover", peerName, "ratio", "aim", "")
	for _, f := range figures {
		peer, ratio, aim, verdict := "-", "-", "-", ""
		if f.Peer != nil {
			peer = short(*f.Peer)
		}
		if f.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *f.Ratio)
		}
		if f.Aim != nil {
			aim = map[bool]string{false: ">=", true: "<="}[f.less] + short(*f.Aim)
			verdict = map[bool]string{true: "ok", false: "missed"}[f.OK]
		}
		ours := short(f.Ours)
		if f.runs == 0 {
			ours, verdict = "-", "not measured"
		}
		p.line(f.Name, f.Unit, ours, peer, ratio, aim, verdict)
	}
	return p.err
}

type printer struct {
	w    io.Writer
	peer string
	err  error
}

func (p *printer) line(name, unit, ours, peer, ratio, aim, verdict string) {
	var err error
	if p.peer == "" {
		_, err = fmt.Fprintf(p.w, "%-58s %-8s %10s %7s %s\n", name, unit, ours, aim, verdict)
	} else {
		_, err = fmt.Fprintf(p.w, "%-58s %-8s %10s %10s %7s %7s %s\n", name, unit, ours, peer, ratio, aim, verdict)
	}
	p.err = errors.Join(p.err, err)
}

// short shows three digits or the whole number.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// WriteJSON writes the list to a file, or nothing where the name is empty.
func WriteJSON(file string, figures []Figure) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
