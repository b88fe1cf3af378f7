package wire

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// Organizations in certificate subjects (O=); CN is the device's, member's or user's name.
const (
	OrgDevices = "drover:devices"
	OrgHubs    = "drover:hubs"
	OrgAdmins  = "drover:admins"
	// HubServerName is a DNS name that every hub member's certificate has.
	HubServerName = "hub.drover.internal"
)

const (
	tokenPrefix = "drover1"
	secretBytes = 32
	maxToken    = 512
)

// Token is a join token as people carry it: the hash of the CA certificate that the hub must show, the name of the JoinToken
// and its secret. It does not print its secret.
type Token struct {
	CAHash Hash // SHA-256 of the CA certificate, DER
	Name   string
	secret [secretBytes]byte
}

// NewToken makes a token with a secret from random (crypto/rand.Reader).
func NewToken(random io.Reader, caDER []byte, name string) (Token, error) {
	t := Token{CAHash: HashOf(caDER), Name: name}
	if _, err := io.ReadFull(random, t.secret[:]); err != nil {
		return Token{}, fmt.Errorf("draw a token's secret: %w", err)
	}
	return t, checkName("token name", name)
}

// ParseToken reads drover1.CAHASH.NAME.SECRET. Its errors never repeat the text.
func ParseToken(text string) (Token, error) {
	if len(text) > maxToken {
		return Token{}, fault.SizeLimit("token", int64(len(text)), maxToken)
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) < 4 || parts[0] != tokenPrefix {
		return Token{}, fault.BadRequest.Errorf("not a join token: want %s.CAHASH.NAME.SECRET, as token create printed it", tokenPrefix)
	}
	last := len(parts) - 1 // a name may have dots
	t := Token{Name: strings.Join(parts[2:last], ".")}
	if err := checkName("name in the join token", t.Name); err != nil {
		return Token{}, fault.BadRequest.Wrap(err)
	}
	enc := base64.RawURLEncoding.Strict()
	hash, err := enc.DecodeString(parts[1])
	if err != nil || len(hash) != sha256.Size {
		return Token{}, fault.BadRequest.Errorf("join token is damaged: its second part is not a hash; copy it again")
	}
	secret, err := enc.DecodeString(parts[last])
	if err != nil || len(secret) != secretBytes {
		return Token{}, fault.BadRequest.Errorf("join token is damaged: its last part is not a secret of %d bytes; copy it again", secretBytes)
	}
	t.CAHash = hash
	copy(t.secret[:], secret)
	return t, nil
}

// Reveal is the whole token with its secret, to print once or to send over verified TLS.
func (t Token) Reveal() Secret {
	return Secret(t.public() + "." + base64.RawURLEncoding.EncodeToString(t.secret[:]))
}

func (t Token) public() string {
	return tokenPrefix + "." + base64.RawURLEncoding.EncodeToString(t.CAHash) + "." + t.Name
}

// String is the token without its secret.
func (t Token) String() string { return t.public() + "." + Redacted }

// Format writes String whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue is what slog shows.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// SecretHash is sha256:HEX of the secret, as JoinToken.spec.secretHash keeps it.
func (t Token) SecretHash() string {
	h := sha256.Sum256(t.secret[:])
	return "sha256:" + hex.EncodeToString(h[:])
}

// HasSecret reports whether secretHash is of this token's secret, in constant time.
func (t Token) HasSecret(secretHash string) bool {
	return subtle.ConstantTimeCompare([]byte(t.SecretHash()), []byte(secretHash)) == 1
}

// TrustsCA reports whether der is the CA certificate that the token pins.
func (t Token) TrustsCA(der []byte) bool { return t.CAHash.Equal(HashOf(der)) }
