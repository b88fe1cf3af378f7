package api

import (
	"fmt"
	"slices"
	"strings"
)

// HubAudience is the audience of tokens for the hub's own API, which a projection without an audience asks for.
const HubAudience = "drover"

// Bounds of projected volumes.
const (
	MinProjectedLife = 600 // seconds
	MaxProjectedLife = 24 * 3600
	maxProjections   = 16  // of one volume
	maxTokenFiles    = 64  // of one template
	maxAudience      = 253 // bytes, as tokens have it
	maxProjectedPath = 255 // bytes
)

func count(list ...bool) int {
	n := 0
	for _, b := range list {
		if b {
			n++
		}
	}
	return n
}

// checkProjections judges projected volumes and the account whose tokens they hold.
func checkProjections(spec string, p *PodSpec) []FieldError {
	var errs []FieldError
	if p.ServiceAccountName != "" {
		errs = nameField(spec+".serviceAccountName", p.ServiceAccountName)
	}
	files := 0
	for i := range p.Volumes {
		v := p.Volumes[i].Projected
		if v == nil {
			continue
		}
		files += len(v.Sources)
		errs = append(errs, checkProjected(spec+".volumes"+index(i)+".projected", v)...)
	}
	if files > 0 && p.ServiceAccountName == "" {
		errs = append(errs, FieldError{spec + ".serviceAccountName", "is missing: a volume asks for its token; name a ServiceAccount of the namespace"})
	}
	return append(errs, limitCount(spec+".volumes[*].projected.sources", files, maxTokenFiles)...)
}

func checkProjected(at string, v *ProjectedVolume) []FieldError {
	if len(v.Sources) == 0 {
		return []FieldError{{at + ".sources", "is empty: want at least one serviceAccountToken"}}
	}
	errs := limitCount(at+".sources", len(v.Sources), maxProjections)
	if m := v.DefaultMode; m != nil {
		errs = append(errs, rangeError(at+".defaultMode", int64(*m), 0, 0o777)...)
	}
	var paths []string
	for i := range v.Sources {
		source := at + ".sources" + index(i) + ".serviceAccountToken"
		t := v.Sources[i].ServiceAccountToken
		if t == nil {
			errs = append(errs, FieldError{source, "is missing: this release of Drover projects tokens of service accounts only"})
			continue
		}
		if len(t.Audience) > maxAudience {
			errs = append(errs, FieldError{source + ".audience", fmt.Sprintf("is %d bytes; the limit is %d", len(t.Audience), maxAudience)})
		}
		if n := t.ExpirationSeconds; n != nil {
			errs = append(errs, rangeError(source+".expirationSeconds", *n, MinProjectedLife, MaxProjectedLife)...)
		}
		if err := checkProjectedPath(t.Path); err != nil {
			errs = appendErr(errs, source+".path", err)
			continue
		}
		if j := slices.IndexFunc(paths, func(p string) bool { return within(p, t.Path) || within(t.Path, p) }); j >= 0 {
			errs = append(errs, FieldError{source + ".path", fmt.Sprintf("%q stands in the way of %q: each file needs a path of its own", t.Path, paths[j])})
		}
		paths = append(paths, t.Path)
	}
	return errs
}

// within tells whether path is dir or lies below it.
func within(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// checkProjectedPath wants a clean relative path whose parts are names.
func checkProjectedPath(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("is missing")
	case strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is absolute: want a path within the volume, as token", clip(p))
	case len(p) > maxProjectedPath || strings.ContainsRune(p, 0):
		return fmt.Errorf("%q has a zero byte or more than %d characters", clip(p), maxProjectedPath)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || strings.HasPrefix(part, "..") {
			return fmt.Errorf("%q has a part %q: want names, separated by single '/', that do not begin with \"..\"", clip(p), part)
		}
	}
	return nil
}
