package fakedriver

import (
	"context"
	"slices"
	"strings"

	"github.com/drover-fleet/drover/agent/workload"
)

// heldToken is a file with a token; it goes with a reboot.
type heldToken struct {
	workload.HeldToken
	text string
}

// TokenFiles implements workload.Tokens.
func (d *Driver) TokenFiles(ctx context.Context) ([]workload.HeldToken, error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	var out []workload.HeldToken
	for _, t := range d.r.tokens {
		out = append(out, t.HeldToken)
	}
	slices.SortFunc(out, func(a, b workload.HeldToken) int {
		return strings.Compare(a.UID+"/"+a.Volume+"/"+a.Path, b.UID+"/"+b.Volume+"/"+b.Path)
	})
	return out, ctx.Err()
}

// PutToken implements workload.Tokens. It works without the runtime, as files do.
func (d *Driver) PutToken(ctx context.Context, t workload.HeldToken, text []byte) error {
	d.point()
	d.r.do(func() { d.r.tokens[t.TokenID] = heldToken{t, string(text)} })
	d.point()
	return ctx.Err()
}

// DropToken implements workload.Tokens.
func (d *Driver) DropToken(ctx context.Context, id workload.TokenID) error {
	d.point()
	d.r.do(func() { delete(d.r.tokens, id) })
	d.point()
	return ctx.Err()
}

// Token is what the file holds now; "" is no file.
func (r *Runtime) Token(uid, volume, path string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens[workload.TokenID{UID: uid, Volume: volume, Path: path}].text
}

func (r *Runtime) forgetTokens(uid string) {
	for id := range r.tokens {
		if id.UID == uid {
			delete(r.tokens, id)
		}
	}
}
