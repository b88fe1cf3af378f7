package workload

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPlain is what a message may have, in bytes: far below what the protocol refuses, so that a device with many failures can
// still tell of all of them.
const maxPlain = 1024

// Plain makes text of others (errors of the runtime, of a registry, of the kernel) fit to be stored and sent: valid UTF-8 without
// control characters, of bounded length. Of long text the beginning, which says what was being done, and the end, which says
// why it failed, are kept.
func Plain(s string) string {
	if len(s) > maxPlain {
		const half = maxPlain/2 - len(gap)
		s = s[:half] + gap + s[len(s)-half:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, s)
}

const gap = " ... "
