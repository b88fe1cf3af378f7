package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
)

// figure is one line of the table: medians of both sides. The aim is for the ratio ours/peer.
type figure struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Ours     float64  `json:"ours"`
	Peer     *float64 `json:"peer"`
	PeerName string   `json:"peer_name"`
	Ratio    *float64 `json:"ratio"`
	Aim      *float64 `json:"aim"`
	OK       bool     `json:"ok"`

	less bool // less is better
}

// samples are the runs of one figure on both sides.
type samples struct {
	name, unit string
	aim        float64 // 0 = none
	less       bool
	ours, peer []float64
}

func (s *samples) figure() figure {
	f := figure{Name: s.name, Unit: s.unit, Ours: median(s.ours), OK: true, less: s.less}
	if len(s.peer) > 0 {
		peer := median(s.peer)
		f.Peer, f.PeerName = &peer, "etcd"
		if peer != 0 {
			ratio := f.Ours / peer
			f.Ratio = &ratio
		}
	}
	if s.aim != 0 && f.Ratio != nil {
		f.Aim = &s.aim
		f.OK = *f.Ratio >= s.aim
		if s.less {
			f.OK = *f.Ratio <= s.aim
		}
	}
	return f
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func printTable(w io.Writer, figures []figure) {
	fmt.Fprintf(w, "%-50s %-8s %10s %10s %7s %7s\n", "figure", "unit", "drover", "etcd", "ratio", "aim")
	for _, f := range figures {
		peer, ratio, aim, verdict := "-", "-", "-", ""
		if f.Peer != nil {
			peer = short(*f.Peer)
		}
		if f.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *f.Ratio)
		}
		if f.Aim != nil {
			aim = map[bool]string{false: ">=", true: "<="}[f.less] + fmt.Sprintf("%.1f", *f.Aim)
			verdict = map[bool]string{true: "ok", false: "missed"}[f.OK]
		}
		fmt.Fprintf(w, "%-50s %-8s %10s %10s %7s %7s %s\n", f.Name, f.Unit, short(f.Ours), peer, ratio, aim, verdict)
	}
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

func writeJSON(file string, figures []figure) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
