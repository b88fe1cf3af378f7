package tokens

import (
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api/fault"
)

// FuzzVerify: of all texts only a token that was made here is taken, whole and unchanged; nothing else is worse than unauthorised.
func FuzzVerify(f *testing.F) {
	f.Add("", 0)
	f.Add("eyJhbGciOiJub25lIn0.e30.", 3)
	f.Add("eyJhbGciOiJFUzI1NiIsImtpZCI6Ii4uLyJ9.e30.AAAA", 40)
	f.Add("..", 100)
	f.Fuzz(func(t *testing.T, text string, at int) {
		h := newHouse(t)
		whole := h.issue(nil)
		cut := min(max(at, 0), len(whole))
		parts := strings.Split(whole, ".")
		for _, bad := range []string{text, whole[:cut] + text, whole[:cut] + text + whole[cut:], parts[0] + "." + text + "." + parts[2], text + "." + parts[1] + "." + parts[2]} {
			if bad == whole {
				continue
			}
			if _, _, err := h.Verify(t.Context(), bad, nil); !fault.Is(err, fault.Unauthorized) {
				t.Fatalf("%q: got %v, want Unauthorized", bad, err)
			}
		}
	})
}
