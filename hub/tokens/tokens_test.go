package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
	"github.com/drover-fleet/drover/store/mvcc"
)

// house is a hub of one member with an account "ci", a secret "s", and a clock that the test moves.
type house struct {
	t *testing.T
	*Authority
	b   *registry.LocalBackend
	c   client.Client
	now time.Time
}

func newHouse(t *testing.T) *house {
	t.Helper()
	s, err := mvcc.Open(filepath.Join(t.TempDir(), "state"), mvcc.Options{})
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	key := sha256.Sum256([]byte(t.Name()))
	sealer, err := registry.NewSealer(key[:])
	check(t, err)
	h := &house{t: t, b: registry.Local(s), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	reg, err := registry.New(h.b, registry.Options{Sealer: sealer})
	check(t, err)
	h.c = reg.As(registry.Actor{Name: "hub:h1"})
	check(t, registry.EnsureNamespace(t.Context(), h.c, "default"))
	h.Authority, err = New(Config{Member: "h1", Backend: h.b, Sealer: sealer, Client: h.c, Now: func() time.Time { return h.now },
		Cluster: func() (string, bool) { return "C1", true }})
	check(t, err)
	h.account()
	_, err = h.c.Create(t.Context(), &api.Secret{Metadata: meta("s")}, client.WriteOptions{})
	check(t, err)
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func meta(name string) api.ObjectMeta { return api.ObjectMeta{Namespace: "default", Name: name} }

func (h *house) account() {
	h.t.Helper()
	_, err := h.c.Create(h.t.Context(), &api.ServiceAccount{Metadata: meta("ci")}, client.WriteOptions{})
	check(h.t, err)
}

func (h *house) remove(k *api.Kind, name string) {
	h.t.Helper()
	check(h.t, h.c.Delete(h.t.Context(), api.Ref{Kind: k, Namespace: "default", Name: name}, client.DeleteOptions{}))
}

// hold has the account wait for somebody when it is deleted.
func (h *house) hold() {
	h.t.Helper()
	o := &api.ServiceAccount{Metadata: meta("ci")}
	o.Metadata.Finalizers = []string{"example.org/wait"}
	_, err := h.c.Update(h.t.Context(), o, client.WriteOptions{})
	check(h.t, err)
}

func (h *house) issue(change func(*Request)) string {
	h.t.Helper()
	rq := Request{Namespace: "default", Account: "ci"}
	if change != nil {
		change(&rq)
	}
	tok, err := h.Issue(h.t.Context(), rq)
	check(h.t, err)
	return string(tok.Text)
}

func bindSecret(rq *Request) { rq.Bound = &Bound{Kind: api.KindSecret, Name: "s"} }

func TestATokenIsGoodForItsAudienceItsTimeAndAsLongAsWhatItIsBoundToLives(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*Request)
		then func(h *house)
		aud  []string
		want string // part of the refusal; "" = good
	}{
		{name: "at once"},
		{name: "just before its end", then: func(h *house) { h.now = h.now.Add(time.Hour) }},
		{name: "after its end", then: func(h *house) { h.now = h.now.Add(time.Hour + leeway + time.Second) }, want: "expired"},
		{name: "by a clock that is a little behind", then: func(h *house) { h.now = h.now.Add(-leeway + time.Second) }},
		{name: "by a clock that is far behind", then: func(h *house) { h.now = h.now.Add(-time.Minute) }, want: "not good yet"},
		{name: "for another audience", make: func(rq *Request) { rq.Audiences = []string{"vault"} }, want: "another audience"},
		{name: "for another audience, asked for that", make: func(rq *Request) { rq.Audiences = []string{"vault"} }, aud: []string{"vault", "x"}},
		{name: "account deleted", then: func(h *house) { h.remove(api.KindServiceAccount, "ci") }, want: "serviceaccount was deleted"},
		{name: "account being deleted", then: func(h *house) { h.hold(); h.remove(api.KindServiceAccount, "ci") }, want: "serviceaccount was deleted"},
		{name: "account made again", then: func(h *house) { h.remove(api.KindServiceAccount, "ci"); h.account() }, want: "serviceaccount was deleted"},
		{name: "bound", make: bindSecret},
		{name: "bound object deleted", make: bindSecret, then: func(h *house) { h.remove(api.KindSecret, "s") }, want: "secret was deleted"},
		{name: "key rotated", then: func(h *house) { check(h.t, h.Rotate(h.t.Context(), false)) }},
		{name: "keys forgotten", then: func(h *house) { check(h.t, h.Rotate(h.t.Context(), true)) }, want: "does not have"},
		{name: "longest life", make: func(rq *Request) { rq.Life = MaxLife }, then: func(h *house) { h.now = h.now.Add(MaxLife) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHouse(t)
			text := h.issue(tt.make)
			if tt.then != nil {
				tt.then(h)
			}
			id, matched, err := h.Verify(t.Context(), text, tt.aud)
			if tt.want == "" {
				if err != nil || id.Name != "system:serviceaccount:default:ci" || id.UID == "" || len(matched) != 1 {
					t.Errorf("got %+v for %q, %v; want the account", id, matched, err)
				}
				return
			}
			if !fault.Is(err, fault.Unauthorized) || !strings.Contains(err.Error(), tt.want) || id.Name != "" {
				t.Errorf("got %+v, %v; want Unauthorized with %q", id, err, tt.want)
			}
		})
	}
}

// TestWhatTheHubDidNotSignIsRefused: each is a token of the hub's own with one thing about it changed.
func TestWhatTheHubDidNotSignIsRefused(t *testing.T) {
	h := newHouse(t)
	good := h.issue(nil)
	if _, _, err := h.Verify(t.Context(), good, nil); err != nil {
		t.Fatalf("the token before it is changed: %v", err)
	}
	keys, err := h.keys.all(t.Context())
	check(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	parts := strings.Split(good, ".")
	decode := func(s string) map[string]any {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		check(t, err)
		var m map[string]any
		check(t, json.Unmarshal(raw, &m))
		return m
	}
	encode := func(m map[string]any) string {
		raw, err := json.Marshal(m)
		check(t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	resigned := func(by any, method jwt.SigningMethod, change func(header, claims map[string]any)) string {
		tok := jwt.NewWithClaims(method, jwt.MapClaims(decode(parts[1])))
		tok.Header["kid"] = keys[0].id
		change(tok.Header, tok.Claims.(jwt.MapClaims))
		s, err := tok.SignedString(by)
		check(t, err)
		return s
	}
	own := func(change func(c map[string]any)) string {
		return resigned(keys[0].private, jwt.SigningMethodES256, func(_, c map[string]any) { change(c) })
	}
	public, err := keys[0].private.PublicKey.Bytes()
	check(t, err)
	claims := decode(parts[1])
	claims["sub"] = "system:serviceaccount:default:other"
	for name, text := range map[string]string{
		"nothing":                      "",
		"not a token":                  "abc",
		"two parts":                    parts[0] + "." + parts[1],
		"four parts":                   good + ".x",
		"other claims":                 parts[0] + "." + encode(claims) + "." + parts[2],
		"signature cut":                good[:len(good)-4],
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"alg none":                     encode(map[string]any{"alg": "none", "kid": keys[0].id}) + "." + parts[1] + ".",
		"alg None":                     encode(map[string]any{"alg": "None", "kid": keys[0].id}) + "." + parts[1] + "." + parts[2],
		"HS256 with the public key":    resigned(public, jwt.SigningMethodHS256, func(map[string]any, map[string]any) {}),
		"another key of the same id":   resigned(other, jwt.SigningMethodES256, func(map[string]any, map[string]any) {}),
		"a key id that is a path":      resigned(other, jwt.SigningMethodES256, func(h, _ map[string]any) { h["kid"] = "../~ca" }),
		"no key id":                    resigned(keys[0].private, jwt.SigningMethodES256, func(h, _ map[string]any) { delete(h, "kid") }),
		"a key id that is a number":    resigned(keys[0].private, jwt.SigningMethodES256, func(h, _ map[string]any) { h["kid"] = 7 }),
		"64 KiB":                       strings.Repeat("a", 64<<10),
		"another hub":                  own(func(c map[string]any) { c["iss"] = "urn:drover:C2" }),
		"no end":                       own(func(c map[string]any) { delete(c, "exp") }),
		"a year":                       own(func(c map[string]any) { c["exp"] = h.now.Add(365 * 24 * time.Hour).Unix() }),
		"no audience":                  own(func(c map[string]any) { delete(c, "aud") }),
		"another subject than account": own(func(c map[string]any) { c["sub"] = "system:serviceaccount:default:other" }),
		"no account":                   own(func(c map[string]any) { delete(c, "kubernetes.io") }),
		"no uid": own(func(c map[string]any) {
			c["kubernetes.io"] = map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "ci"}}
		}),
	} {
		id, _, err := h.Verify(t.Context(), text, nil)
		if !fault.Is(err, fault.Unauthorized) || id.Name != "" {
			t.Errorf("%s: got %+v, %v; want Unauthorized", name, id, err)
			continue
		}
		if len(text) > 20 && (strings.Contains(err.Error(), text[:20]) || strings.Contains(err.Error(), keys[0].id)) {
			t.Errorf("%s: the error repeats the token: %v", name, err)
		}
	}
}

func TestWhatATokenCannotBe(t *testing.T) {
	h := newHouse(t)
	for name, tt := range map[string]struct {
		change func(*Request)
		want   fault.Class
	}{
		"too short":               {func(rq *Request) { rq.Life = MinLife - time.Second }, fault.Invalid},
		"too long":                {func(rq *Request) { rq.Life = MaxLife + time.Second }, fault.Invalid},
		"negative":                {func(rq *Request) { rq.Life = -time.Hour }, fault.Invalid},
		"eleven audiences":        {func(rq *Request) { rq.Audiences = make([]string, 11) }, fault.Invalid},
		"an empty audience":       {func(rq *Request) { rq.Audiences = []string{""} }, fault.Invalid},
		"no such account":         {func(rq *Request) { rq.Account = "nobody" }, fault.NotFound},
		"another account's uid":   {func(rq *Request) { rq.UID = "u" }, fault.Conflict},
		"bound to a device":       {func(rq *Request) { rq.Bound = &Bound{Kind: api.KindDevice, Name: "d"} }, fault.Invalid},
		"bound to what is not":    {func(rq *Request) { rq.Bound = &Bound{Kind: api.KindAssignment, Name: "a"} }, fault.NotFound},
		"bound to another object": {func(rq *Request) { rq.Bound = &Bound{Kind: api.KindSecret, Name: "s", UID: "u"} }, fault.Conflict},
	} {
		rq := Request{Namespace: "default", Account: "ci"}
		tt.change(&rq)
		if tok, err := h.Issue(t.Context(), rq); fault.ClassOf(err) != tt.want || tok.Text != "" {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

func TestKeysSignForAMonthAndAreKeptUntilTheirTokensHaveEnded(t *testing.T) {
	h := newHouse(t)
	count := func() int {
		keys, err := h.keys.all(t.Context())
		check(t, err)
		return len(keys)
	}
	h.issue(nil)
	h.issue(nil)
	if n := count(); n != 1 {
		t.Fatalf("after two tokens: got %d keys, want 1", n)
	}
	h.now = h.now.Add(rotateAfter - time.Second)
	last := h.issue(func(rq *Request) { rq.Life = MaxLife })
	h.now = h.now.Add(time.Second)
	h.issue(nil)
	if n := count(); n != 2 {
		t.Fatalf("after a month: got %d keys, want 2", n)
	}
	h.now = h.now.Add(MaxLife - time.Second)
	if _, _, err := h.Verify(t.Context(), last, nil); err != nil {
		t.Errorf("the last token of the old key, at its end: %v", err)
	}
	h.now = h.now.Add(rotateAfter)
	h.issue(nil)
	if n := count(); n != 2 {
		t.Errorf("after two months: got %d keys, want 2: the first is dropped", n)
	}
}

// TestAKeyMadeElsewhereCountsHere: tokens are read by records alone, nothing is kept in one member's memory.
func TestAKeyMadeElsewhereCountsHere(t *testing.T) {
	h := newHouse(t)
	other, err := New(h.Authority.c)
	check(t, err)
	text := h.issue(nil)
	if _, _, err := other.Verify(t.Context(), text, nil); err != nil {
		t.Errorf("the other member: %v", err)
	}
	check(t, other.Rotate(t.Context(), true))
	if _, _, err := h.Verify(t.Context(), text, nil); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("after the other member forgot the key: got %v, want Unauthorized", err)
	}
}

func TestNoKeyAndNoTokenPrintsOrStandsInARecordInClear(t *testing.T) {
	h := newHouse(t)
	tok, err := h.Issue(t.Context(), Request{Namespace: "default", Account: "ci"})
	check(t, err)
	for _, f := range []string{"%v", "%+v", "%s", "%q"} {
		if got := fmt.Sprintf(f, tok); strings.Contains(got, string(tok.Text)[:16]) {
			t.Errorf("%s prints the token: %s", f, got)
		}
	}
	keys, err := h.keys.all(t.Context())
	check(t, err)
	secret, err := keys[0].private.Bytes()
	check(t, err)
	res, err := h.b.Range(context.Background(), store.RangeRequest{Start: KeyPrefix, End: store.PrefixEnd(KeyPrefix)})
	check(t, err)
	if len(res.KVs) != 1 || strings.Contains(string(res.KVs[0].Value), string(secret)) {
		t.Errorf("got %d records; the private key stands in clear: %v", len(res.KVs), strings.Contains(string(res.KVs[0].Value), string(secret)))
	}
}

func BenchmarkVerify(b *testing.B) {
	s, err := mvcc.Open(filepath.Join(b.TempDir(), "state"), mvcc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	sealer, _ := registry.NewSealer(make([]byte, 32))
	local := registry.Local(s)
	reg, err := registry.New(local, registry.Options{Sealer: sealer})
	if err != nil {
		b.Fatal(err)
	}
	c := reg.As(registry.Actor{Name: "hub:h1"})
	if err := registry.EnsureNamespace(b.Context(), c, "default"); err != nil {
		b.Fatal(err)
	}
	if _, err := c.Create(b.Context(), &api.ServiceAccount{Metadata: meta("ci")}, client.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	a, err := New(Config{Member: "h1", Backend: local, Sealer: sealer, Client: c, Cluster: func() (string, bool) { return "C1", true }})
	if err != nil {
		b.Fatal(err)
	}
	tok, err := a.Issue(b.Context(), Request{Namespace: "default", Account: "ci"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := a.Verify(b.Context(), string(tok.Text), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// otherKeySeals is a backend on which another sealing key takes over between a plan and its first proposal.
type otherKeySeals struct {
	*registry.LocalBackend
	take func()
}

func (b *otherKeySeals) Propose(ctx context.Context, c *store.Command) (store.Result, error) {
	if take := b.take; take != nil {
		b.take = nil
		take()
	}
	return b.LocalBackend.Propose(ctx, c)
}

// What the old key sealed after everything was sealed anew would be lost with it.
func TestAKeyThatIsMadeWhileTheSealingKeyChangesIsSealedByTheNewOne(t *testing.T) {
	h := newHouse(t)
	old, next := sha256.Sum256([]byte(t.Name())), sha256.Sum256([]byte("next"))
	sealer, err := registry.NewSealer(old[:], next[:])
	check(t, err)
	id := registry.KeyIDOf(next[:])
	b := &otherKeySeals{LocalBackend: h.b, take: func() {
		text, err := json.Marshal(registry.Sealing{Phase: registry.SealingActive, Active: id})
		check(t, err)
		_, err = h.b.Propose(t.Context(), &store.Command{Actor: "test", Ops: []store.Op{{Type: store.OpPut, Key: registry.KeySealing, Value: text}}})
		check(t, err)
	}}
	h.keys.b, h.keys.sealer = b, sealer
	h.issue(nil)
	counts, err := registry.SealedValues(t.Context(), h.b)
	check(t, err)
	if len(counts) != 1 || counts[id] != 1 {
		t.Errorf("values by sealing key: got %v, want one by %s", counts, id)
	}
}
