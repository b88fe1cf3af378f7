package remote

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// maxTokenBytes bounds a bearer token.
const maxTokenBytes = 64 << 10

// Token is a bearer token. It does not print.
type Token string

// Format prints nothing of it, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { fmt.Fprint(f, "Token(...)") }

// CheckToken trims the text of a token and refuses what cannot be one. Its errors repeat nothing of the text.
func CheckToken(text []byte) (Token, error) {
	t := strings.TrimSpace(string(text))
	switch {
	case t == "":
		return "", errors.New("the token is empty")
	case len(t) > maxTokenBytes:
		return "", fmt.Errorf("the token is %d bytes; the limit is %d bytes", len(t), maxTokenBytes)
	case strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("the token holds blanks or characters that no token has: is it the right file?")
	}
	return Token(t), nil
}

// Ends is when a token of the JWT form ends, as it says itself; false for any other token. Nothing is verified.
func (t Token) Ends() (time.Time, bool) {
	parts := strings.Split(string(t), ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(b, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}

// Credentials are how a person or a program shows who it is: a client certificate, a bearer token, or both.
type Credentials struct {
	Cert []byte // PEM
	Key  []byte // PEM; never printed
	// Token is sent as it is. TokenFile is read again as it changes, for tokens that somebody renews, and rules when both are set.
	Token     Token
	TokenFile string
	// As and AsGroups are whom to act as: it needs the right to impersonate them.
	As       string
	AsGroups []string
}

// Format prints what there is and none of it, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "Credentials(certificate %t, token %t)", len(c.Cert) > 0, c.Token != "" || c.TokenFile != "")
}

// unsupported are the other ways of kubeconfig to name a user, and what to do instead.
var unsupported = map[string]string{
	"exec":          "no program is run for credentials: have it write a token to a file and give tokenFile",
	"auth-provider": "give a token, tokenFile or a client certificate",
	"username":      "give a token, tokenFile or a client certificate",
	"password":      "give a token, tokenFile or a client certificate",
}

// take reads a user's entry. An entry with fields of an unknown meaning is refused: they would have to be ignored.
func (c *Credentials) take(user map[string]any, dir string) error {
	text := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(user)) {
		if instead, known := unsupported[field]; known {
			return fmt.Errorf("%s is not supported: %s", field, instead)
		}
		var err error
		switch field {
		case "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile", "as":
			text[field], err = textOf(user[field])
		case "as-groups":
			c.AsGroups, err = textsOf(user[field])
		default:
			err = errors.New("is not supported: give a token, tokenFile or a client certificate")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	c.As = text["as"]
	if c.As == "" && len(c.AsGroups) > 0 {
		return errors.New("as-groups is given without as")
	}
	return c.takeSecrets(text, dir)
}

func (c *Credentials) takeSecrets(text map[string]string, dir string) (err error) {
	if text["token"] != "" {
		if c.Token, err = CheckToken([]byte(text["token"])); err != nil {
			return err
		}
	}
	if c.TokenFile = text["tokenFile"]; c.TokenFile != "" && !filepath.IsAbs(c.TokenFile) {
		c.TokenFile = filepath.Join(dir, c.TokenFile)
	}
	if text["client-certificate"] == "" && text["client-certificate-data"] == "" {
		if c.Token == "" && c.TokenFile == "" {
			return errors.New("neither a client certificate nor a token is given")
		}
		return nil
	}
	if c.Cert, err = fileOrData("client-certificate", text["client-certificate"], text["client-certificate-data"], dir); err != nil {
		return err
	}
	c.Key, err = fileOrData("client-key", text["client-key"], text["client-key-data"], dir)
	return err
}

func textOf(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", errors.New("want a string")
	}
	return s, nil
}

func textsOf(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("want a list of strings")
	}
	out := make([]string, len(list))
	for i, e := range list {
		var err error
		if out[i], err = textOf(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tokenAge is for how long a token that was read from a file is taken as the file's.
const tokenAge = 10 * time.Second

// bearer gives the token of each request. Safe for concurrent use.
type bearer struct {
	fixed Token
	file  string
	now   func() time.Time

	mu   sync.Mutex
	held Token
	read time.Time
}

// token is "" where there is none. A file that cannot be read is an error, unless it could be a moment ago: who renews it may be
// about to put it into place.
func (b *bearer) token() (Token, error) {
	if b.file == "" {
		return b.fixed, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.held != "" && now.Sub(b.read) < tokenAge {
		return b.held, nil
	}
	t, err := readToken(b.file)
	switch {
	case err == nil:
		b.held, b.read = t, now
	case b.held == "" || now.Sub(b.read) > 6*tokenAge:
		return "", fault.Unauthorized.Errorf("token file: %w", err)
	}
	return b.held, nil
}

// forget has the file read again for the next request: what it gave was refused.
func (b *bearer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = ""
}

func readToken(path string) (Token, error) {
	b, err := readCapped(path)
	if err != nil {
		return "", err
	}
	t, err := CheckToken(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// CurrentToken is the token of now; "" where there is none.
func (c Credentials) CurrentToken() (Token, error) {
	if c.TokenFile != "" {
		return readToken(c.TokenFile)
	}
	return c.Token, nil
}

// Headers by which a request is made as another; Kubernetes' own.
const (
	HeaderAsUser  = "Impersonate-User"
	HeaderAsGroup = "Impersonate-Group"
)

// authorize puts the credentials that go with each request into its header.
func (c *Client) authorize(h http.Header) error {
	t, err := c.bearer.token()
	if err != nil {
		return err
	}
	if t != "" {
		h.Set("Authorization", "Bearer "+string(t))
	}
	if c.as != "" {
		h.Set(HeaderAsUser, c.as)
	}
	for _, g := range c.asGroups {
		h.Add(HeaderAsGroup, g)
	}
	return nil
}
