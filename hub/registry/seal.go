package registry

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	sealKeyBytes  = 32
	sealSaltBytes = 32
	sealIDBytes   = 8
	sealVersion   = 1
	maxKeyFile    = 16 << 10
	maxKeys       = 64
)

// SealPrefix is how the files begin that CreateSealer and InstallSealer write aside. One that is left over means nothing.
const SealPrefix = ".seal-"

// ErrSealed is wrapped by every error of Open: the key is not ours, or the bytes or their context were changed.
var ErrSealed = errors.New("sealed value cannot be opened")

// Sealer encrypts what must not stand in the store in clear. Members get its keys when they join, and new ones from each other; they
// never go into the log. The first key seals where nobody names another, all of them open. A Sealer does not print its keys. Safe for
// concurrent use.
//
// A sealed value is: version (1 byte) | id of the key (8) | salt (32) | AES-256-GCM ciphertext and tag. Each value has a key of
// its own, derived from the sealing key and the random salt, so no nonce can repeat however much is sealed.
type Sealer struct {
	path string // of the key file; "" = only in memory

	mu   sync.RWMutex
	keys [][]byte // sealKeyBytes each, never empty
	hash []byte   // key of KeyedHash; that of the first key that there ever was, so that hashes stay comparable when keys come and go
}

// NewSealer makes a sealer of keys of 32 bytes each, the one that seals first and the oldest last.
func NewSealer(keys ...[]byte) (*Sealer, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("sealer: %d keys, want 1 to %d", len(keys), maxKeys)
	}
	s := &Sealer{}
	for _, k := range keys {
		if len(k) != sealKeyBytes {
			return nil, fmt.Errorf("sealer: key of %d bytes, want %d", len(k), sealKeyBytes)
		}
		s.keys = append(s.keys, bytes.Clone(k))
	}
	h, err := hkdf.Key(sha256.New, s.keys[len(s.keys)-1], nil, "drover keyed hash", sealKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("sealer: %w", err)
	}
	s.hash = h
	return s, nil
}

// CreateSealer makes a key and writes it to a new file that only the owner can read. An existing file is an error: what was
// sealed by its key could never be opened again.
func CreateSealer(path string) (*Sealer, error) {
	key, err := NewSealingKey()
	if err != nil {
		return nil, err
	}
	s, err := NewSealer(key)
	if err != nil {
		return nil, err
	}
	s.path = path
	return s, s.save(os.Link)
}

// InstallSealer writes what another member exported to a new file.
func InstallSealer(path string, exported []byte) (*Sealer, error) {
	s, err := ParseSealer(exported)
	if err != nil {
		return nil, err
	}
	s.path = path
	return s, s.save(os.Link)
}

// OpenSealer reads the key file.
func OpenSealer(path string) (*Sealer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open seal key: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read seal key: %w", err)
	}
	s, err := ParseSealer(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.path = path
	return s, nil
}

// hashWord begins the line of the key file that holds the key of KeyedHash. A file without one is of a time before the first rotation.
const hashWord = "hash "

// Export returns the keys in the form of the key file, for a member that joins. It is secret.
func (s *Sealer) Export() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var b strings.Builder
	for _, k := range s.keys {
		b.WriteString(base64.StdEncoding.EncodeToString(k))
		b.WriteByte('\n')
	}
	if first, err := NewSealer(s.keys...); err != nil || !bytes.Equal(first.hash, s.hash) {
		b.WriteString(hashWord + base64.StdEncoding.EncodeToString(s.hash) + "\n")
	}
	return []byte(b.String())
}

// ParseSealer reads what Export wrote, without keeping it.
func ParseSealer(b []byte) (*Sealer, error) {
	if len(b) > maxKeyFile {
		return nil, fmt.Errorf("seal key file is larger than %d bytes", maxKeyFile)
	}
	var keys [][]byte
	var hash []byte
	for n, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		text, isHash := strings.CutPrefix(strings.TrimSpace(line), hashWord)
		k, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(k) != sealKeyBytes {
			return nil, fmt.Errorf("seal key file: line %d is not a key of %d bytes in base64", n+1, sealKeyBytes)
		}
		if isHash {
			hash = k
			continue
		}
		keys = append(keys, k)
	}
	s, err := NewSealer(keys...)
	if err == nil && hash != nil {
		s.hash = hash
	}
	return s, err
}

// save writes the file aside and puts it into place whole: by os.Link where there must be none yet, by os.Rename in place of the one that
// is there.
func (s *Sealer) save(put func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(s.path), SealPrefix+"*")
	if err != nil {
		return fmt.Errorf("write seal key: %w", err)
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	_, werr := f.Write(s.Export())
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write seal key: %w", err)
	}
	if err := put(f.Name(), s.path); err != nil {
		return fmt.Errorf("write seal key: %w", err)
	}
	return syncDir(filepath.Dir(s.path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", path, err)
	}
	return nil
}

// Seal encrypts plain by the first key. context says where the value belongs; Open needs the same.
func (s *Sealer) Seal(plain []byte, context string) ([]byte, error) {
	return s.SealBy("", plain, context)
}

// SealBy encrypts by the key of the id; "" is the first.
func (s *Sealer) SealBy(id string, plain []byte, context string) ([]byte, error) {
	key, err := s.key(id)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 1+sealIDBytes+sealSaltBytes, 1+sealIDBytes+sealSaltBytes+len(plain)+16)
	out[0] = sealVersion
	copy(out[1:], keyID(key))
	salt := out[1+sealIDBytes:]
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := valueCipher(key, salt)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return aead.Seal(out, make([]byte, aead.NonceSize()), plain, []byte(context)), nil
}

func (s *Sealer) key(id string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, k := range s.keys {
		if id == "" || id == hexID(k) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%w: this member does not have the key %s yet", ErrSealed, id)
}

// SealedBy is the id of the key that sealed a value; "" where it is no sealed value.
func SealedBy(sealed []byte) string {
	const head = 1 + sealIDBytes + sealSaltBytes
	if len(sealed) < head || sealed[0] != sealVersion {
		return ""
	}
	return hex.EncodeToString(sealed[1 : 1+sealIDBytes])
}

// Open decrypts what Seal made with the same context. It keeps nothing of sealed.
func (s *Sealer) Open(sealed []byte, context string) ([]byte, error) {
	const head = 1 + sealIDBytes + sealSaltBytes
	id := SealedBy(sealed)
	if id == "" {
		return nil, fmt.Errorf("%w: not in a known form", ErrSealed)
	}
	key, err := s.key(id)
	if err != nil {
		return nil, err
	}
	aead, err := valueCipher(key, sealed[1+sealIDBytes:head])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	plain, err := aead.Open([]byte{}, make([]byte, aead.NonceSize()), sealed[head:], []byte(context))
	if err != nil {
		return nil, fmt.Errorf("%w: bytes or context were changed", ErrSealed)
	}
	return plain, nil
}

// KeyedHash tells equal values from different ones without telling what they are: 16 bytes of HMAC-SHA-256.
func (s *Sealer) KeyedHash(b []byte) []byte {
	m := hmac.New(sha256.New, s.hash)
	m.Write(b)
	return m.Sum(nil)[:16]
}

// Format prints no key, whatever the verb.
func (s *Sealer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "Sealer(%d keys)", len(s.IDs())) }

func keyID(key []byte) []byte {
	h := sha256.Sum256(append([]byte("drover seal key id\x00"), key...))
	return h[:sealIDBytes]
}

func hexID(key []byte) string { return hex.EncodeToString(keyID(key)) }

// valueCipher is the cipher of one value. Its key is used once, so the nonce may be fixed.
func valueCipher(key, salt []byte) (cipher.AEAD, error) {
	k, err := hkdf.Key(sha256.New, key, salt, "drover sealed value", sealKeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
