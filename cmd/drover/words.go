package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/client/remote"
)

// telling is, by kind, which fields of a status tell a person something. The others of these kinds are counts, times and messages
// that follow from them.
var telling = map[string][]string{
	"Workload":   {"status.currentRevision"},
	"Rollout":    {"status.phase"},
	"Assignment": {"status.phase", "status.ready", "status.revision", "status.message"},
	"Device":     {"status.facts", "status.conditions"},
}

// bookkeeping are parts of paths that tell nobody anything: they stand beside what they belong to.
var bookkeeping = []string{
	"metadata.ownerReferences", "metadata.annotations[\"fleet.drover.dev/", "metadata.labels[\"fleet.drover.dev/", "metadata.finalizers",
	"metadata.generation", ".lastTransitionTime", ".observedGeneration", ".hash", "secretHash", "specHash",
	"status.identity.", "status.bundle", "status.lastContact", "status.clock", "status.reportedAt", "status.readySince",
	".uid", "spec.csr", "status.certificate",
}

// wordsOf says what a write changed that a person cares for, images first; nothing for a write that only keeps books.
func wordsOf(l remote.Link) []string {
	if l.Verb == "delete" {
		return nil // everything went
	}
	kind, _, _ := strings.Cut(l.Object, " ")
	var images, others []string
	for _, c := range diffOf(l).Changes {
		switch {
		case !tells(kind, l.Verb, c):
		case strings.HasSuffix(c.Path, ".image"):
			images = append(images, sayChange(c))
		default:
			others = append(others, sayChange(c))
		}
	}
	return append(images, others...)
}

func tells(kind, verb string, c fieldChange) bool {
	inStatus := strings.HasPrefix(c.Path, "status.")
	switch {
	case slices.ContainsFunc(bookkeeping, func(b string) bool { return strings.Contains(c.Path, b) }):
		return false
	case kind == "Device" && strings.HasPrefix(c.Path, "status.conditions"):
		return strings.HasSuffix(c.Path, ".reason")
	case inStatus && verb != "status":
		return false // what the hub computes beside a person's write
	case inStatus && telling[kind] != nil:
		return slices.ContainsFunc(telling[kind], func(p string) bool { return strings.HasPrefix(c.Path, p) })
	}
	// A creation is told by what it makes, not by each field of it.
	return verb != "create" || slices.Contains([]string{"spec.device", "spec.revision", "spec.to", "spec.image", "spec.for", "reason", "message"}, c.Path) || strings.HasSuffix(c.Path, ".image")
}

// sayChange is one field in a few words: "image app:1 -> app:2", "phase Running", "ready", "not ready", "no message". A reason or
// message of a condition stands for itself.
func sayChange(c fieldChange) string {
	name := shortPath(c.Path)
	absent := c.New == "" || c.New == "null"
	switch {
	case c.New == "true":
		return name
	case c.New == "false" || absent && c.Old == "true":
		return "not " + name
	case absent:
		return "no " + name
	case strings.HasPrefix(c.Path, "status.conditions[") && (strings.HasSuffix(c.Path, ".reason") || strings.HasSuffix(c.Path, ".message")):
		return valueIn(c.New, maxShownMessage)
	case c.Old == "" || c.Old == "null" || strings.HasPrefix(c.Path, "status."):
		return name + " " + value(c.New)
	}
	return fmt.Sprintf("%s %s -> %s", name, value(c.Old), value(c.New))
}

// bookWord is what is said of a write that only keeps books: a reason or message where there is one.
func bookWord(changes []fieldChange) string {
	for _, suffix := range []string{".reason", ".message", ".cause"} {
		for _, c := range changes {
			if strings.HasSuffix(c.Path, suffix) {
				return sayChange(c)
			}
		}
	}
	for _, c := range changes {
		for _, b := range bookTitles {
			if strings.HasPrefix(c.Path, b.path) {
				return b.word
			}
		}
	}
	return sayChange(changes[0])
}

// bookTitles name what a write kept books of, the most telling first.
var bookTitles = []struct{ path, word string }{
	{"status.bundle.held", "it took what it should run"},
	{"status.bundle", "what it should run was made anew"},
	{"status.identity.certificate", "a certificate was issued"},
	{"status.identity.", "a report came in"},
	{"status.reportedAt", "a report came in"},
}

// shortPath leaves out what every reader knows.
func shortPath(p string) string {
	for _, prefix := range []string{"spec.template.spec.", "spec.template.", "spec.", "status.", "metadata."} {
		if s, ok := strings.CutPrefix(p, prefix); ok {
			p = s
			break
		}
	}
	return plain(strings.TrimPrefix(p, "containers[0]."))
}

const (
	maxShownValue = 48 // columns
	// maxShownMessage is more: a condition's message is the very thing that is asked for.
	maxShownMessage = 160
	maxShownDigest  = 12 // hexadecimal digits
)

// value is a JSON value for people: strings without quotes, digests shortened.
func value(raw string) string { return valueIn(raw, maxShownValue) }

func valueIn(raw string, width int) string {
	if raw == "" || raw == "null" {
		return "none"
	}
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		text = raw
	}
	if before, digest, ok := strings.Cut(text, "sha256:"); ok && len(digest) > maxShownDigest {
		text = before + "sha256:" + digest[:maxShownDigest]
	}
	if text == "" {
		return `""`
	}
	return clip(plain(text), width)
}
