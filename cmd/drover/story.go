package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drover-fleet/drover/client/remote"
)

// story tells a chain of causes to a person.
type story struct {
	all   bool // every write and every field
	limit int  // most links of the chain
}

const (
	maxShownChanges = 3  // of one write
	maxShownAlike   = 10 // objects of one kind among the effects
)

// tell writes a line for each write: from the newest of the object back to its first cause, then what came of it.
func (s story) tell(chain *remote.Chain) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, newest first:\n", chain.Object)
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	shown := chain.Links[:min(s.limit, len(chain.Links))]
	for i, l := range shown {
		lead := "because"
		if i == 0 {
			lead = "now"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s %s\t%s\n", lead, stamp(l), plain(l.Actor), l.Verb, l.Object, s.changed(l))
	}
	_ = tw.Flush() // to memory
	switch {
	case len(shown) < len(chain.Links):
		fmt.Fprintf(&b, "  and %d more; --limit shows them\n", len(chain.Links)-len(shown))
	case !chain.Complete:
		fmt.Fprintf(&b, "  the chain breaks off here: %s\n", cmp.Or(plain(chain.End), "the hub does not say why"))
	}
	if effects := s.effects(chain.Effects); effects != "" {
		b.WriteString("\nwhat came of it:\n" + effects)
	}
	return b.String()
}

func stamp(l remote.Link) string { return l.Time.UTC().Format(time.RFC3339) }

// effects lists what the object's newest write brought about: every write below its cause, or an object a line.
func (s story) effects(links []remote.Link) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if s.all {
		for _, l := range links {
			fmt.Fprintf(tw, "  %s\t%s\t%s%s %s\t%s\n", stamp(l), plain(l.Actor), strings.Repeat("  ", max(0, l.Depth-1)), l.Verb, l.Object, s.changed(l))
		}
		_ = tw.Flush() // to memory
		return b.String()
	}
	alike, left := map[string]int{}, map[string]int{}
	var kinds []string
	for _, o := range outcomes(links) {
		kind, _, _ := strings.Cut(o.first.Object, " ")
		if alike[kind]++; alike[kind] > maxShownAlike {
			if left[kind]++; left[kind] == 1 {
				kinds = append(kinds, kind)
			}
			continue
		}
		fmt.Fprintf(tw, "  %s\t%s %s\t%s\n", stamp(o.first), o.first.Verb, o.first.Object, o.steps())
	}
	_ = tw.Flush() // to memory
	for _, k := range kinds {
		fmt.Fprintf(&b, "  and %d more of kind %s; --all shows every write\n", left[k], k)
	}
	return b.String()
}

// outcome is what happened to one object, in the order of its writes.
type outcome struct {
	first remote.Link
	parts []string
}

// outcomes gathers the writes that matter by their object, in the order in which the objects first appear.
func outcomes(links []remote.Link) []*outcome {
	var out []*outcome
	of := map[string]*outcome{}
	for _, l := range links {
		words := wordsOf(l)
		if len(words) == 0 && l.Verb == "status" {
			continue
		}
		o := of[l.Object]
		if o == nil {
			o = &outcome{first: l}
			of[l.Object] = o
			out = append(out, o)
		}
		if len(words) > maxShownChanges {
			words = append(words[:maxShownChanges:maxShownChanges], fmt.Sprintf("%d more", len(words)-maxShownChanges))
		}
		part := strings.Join(words, ", ")
		if after := l.Time.Sub(o.first.Time.Time); after > 0 && part != "" {
			part += fmt.Sprintf(" (+%s)", after.Round(time.Second))
		}
		if part != "" {
			o.parts = append(o.parts, part)
		}
	}
	return out
}

func (o *outcome) steps() string { return strings.Join(o.parts, ", then ") }

// changed says in a few words what a write changed.
func (s story) changed(l remote.Link) string {
	if s.all {
		return allOf(diffOf(l))
	}
	words := wordsOf(l)
	switch d := diffOf(l); {
	case len(words) == 0 && l.Verb != "status":
		return ""
	case len(words) == 0 && len(d.Changes) > 0:
		words = []string{bookWord(d.Changes)} // it is a link of the chain all the same
	}
	if left := len(words) - maxShownChanges; left > 0 {
		words = append(words[:maxShownChanges:maxShownChanges], fmt.Sprintf("%d more", left))
	}
	return strings.Join(words, ", ")
}

// diff is what a journal record keeps of a change, as the hub renders it.
type diff struct {
	Changes []fieldChange `json:"changes"`
	More    int           `json:"more"`
}

// fieldChange is one field; Old and New are JSON, "" = absent.
type fieldChange struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func diffOf(l remote.Link) diff {
	var d diff
	if len(l.Diff) > 0 && json.Unmarshal(l.Diff, &d) != nil {
		return diff{Changes: []fieldChange{{Path: "?", New: "a diff of another form"}}}
	}
	return d
}

// allOf lists every field of a diff.
func allOf(d diff) string {
	parts := make([]string, 0, len(d.Changes)+1)
	for _, c := range d.Changes {
		parts = append(parts, fmt.Sprintf("%s: %s -> %s", plain(c.Path), value(c.Old), value(c.New)))
	}
	if d.More > 0 {
		parts = append(parts, fmt.Sprintf("%d more", d.More))
	}
	return strings.Join(parts, ", ")
}
