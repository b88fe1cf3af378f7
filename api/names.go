package api

import (
	"fmt"
	"strings"
)

// Longest names, in bytes.
const (
	MaxLabelLen = 63
	MaxNameLen  = 253
)

// CheckDNSLabel wants a DNS-1123 label: 1 to 63 of a-z 0-9 '-', beginning and ending with a letter or digit. Namespaces and
// containers are named so.
func CheckDNSLabel(s string) error {
	if s == "" {
		return fmt.Errorf("is empty")
	}
	if len(s) > MaxLabelLen {
		return fmt.Errorf("%q is %d characters; the limit is %d", clip(s), len(s), MaxLabelLen)
	}
	return checkLabelChars(s, s)
}

// CheckDNSName wants a DNS-1123 subdomain: labels joined by dots, at most 253 characters. Objects are named so.
func CheckDNSName(s string) error {
	if s == "" {
		return fmt.Errorf("is empty")
	}
	if len(s) > MaxNameLen {
		return fmt.Errorf("%q is %d characters; the limit is %d", clip(s), len(s), MaxNameLen)
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return fmt.Errorf("%q has an empty part: dots stand between letters or digits", s)
		}
		if err := checkLabelChars(s, label); err != nil {
			return err
		}
	}
	return nil
}

func checkLabelChars(whole, label string) error {
	for i := range len(label) {
		c := label[i]
		switch {
		case lowerOrDigit(c), c == '-' && i > 0 && i < len(label)-1:
		case c >= 'A' && c <= 'Z':
			return fmt.Errorf("%q has an upper-case letter %q; did you mean %q?", clip(whole), c, clip(strings.ReplaceAll(strings.ToLower(whole), "_", "-")))
		case c == '-':
			return fmt.Errorf("%q begins or ends a part with '-': want a letter or digit there", clip(whole))
		case c == '_':
			return fmt.Errorf("%q has a '_'; use '-'", clip(whole))
		default:
			return fmt.Errorf("%q has the character %q: want a-z, 0-9 and '-' (DNS-1123)", clip(whole), c)
		}
	}
	return nil
}

func lowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func letterOrDigit(c byte) bool { return lowerOrDigit(c) || c >= 'A' && c <= 'Z' }

// CheckLabelKey wants [prefix/]name: the prefix a DNS name, the name up to 63 letters, digits, '-', '_', '.', beginning and
// ending with a letter or digit.
func CheckLabelKey(s string) error {
	prefix, name, slashed := strings.Cut(s, "/")
	if !slashed {
		return checkQualified("key", s, s)
	}
	if err := CheckDNSName(prefix); err != nil {
		return fmt.Errorf("key %q: prefix %w", clip(s), err)
	}
	return checkQualified("key", s, name)
}

// CheckLabelValue wants up to 63 letters, digits, '-', '_', '.', beginning and ending with a letter or digit, or nothing.
func CheckLabelValue(s string) error {
	if s == "" {
		return nil
	}
	return checkQualified("value", s, s)
}

func checkQualified(what, whole, name string) error {
	if name == "" {
		return fmt.Errorf("%s %q is empty", what, clip(whole))
	}
	if len(name) > MaxLabelLen {
		return fmt.Errorf("%s %q is %d characters; the limit is %d", what, clip(whole), len(name), MaxLabelLen)
	}
	for i := range len(name) {
		c := name[i]
		inner := i > 0 && i < len(name)-1
		if !letterOrDigit(c) && (!inner || (c != '-' && c != '_' && c != '.')) {
			return fmt.Errorf("%s %q has the character %q at %d: want letters and digits, between them also '-', '_' and '.'", what, clip(whole), c, i+1)
		}
	}
	return nil
}

// CheckConfigKey wants a key of a ConfigMap or Secret: up to 253 letters, digits, '-', '_' and '.', neither "." nor "..".
func CheckConfigKey(s string) error {
	if s == "" || len(s) > MaxNameLen || s == "." || strings.HasPrefix(s, "..") {
		return fmt.Errorf("key %q: want 1 to %d characters, and not one that begins with \"..\"", clip(s), MaxNameLen)
	}
	for i := range len(s) {
		if c := s[i]; !letterOrDigit(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("key %q has the character %q: want letters, digits, '-', '_' and '.'", clip(s), c)
		}
	}
	return nil
}

// clip shortens s for an error message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
