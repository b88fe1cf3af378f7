package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/agent/state"
)

const (
	identityFile = "identity"
	maxIdentity  = 256 << 10
)

// Identity is who the hub says this device is.
type Identity struct {
	Device      string   `cbor:"1,keyasint"`
	ClusterID   string   `cbor:"2,keyasint"`
	Certificate []byte   `cbor:"3,keyasint"` // DER
	Roots       [][]byte `cbor:"4,keyasint"` // DER, every CA to trust
	Endpoints   []string `cbor:"5,keyasint,omitempty"`
}

// Keeper holds the key and the identity, on disk and in memory. Safe for concurrent use.
type Keeper struct {
	key   *ecdsa.PrivateKey
	codec *state.Codec

	mu   sync.Mutex
	file *state.File
	id   *Identity // nil until enrolled; replaced, never changed
	cert *x509.Certificate
	pool *x509.CertPool
}

// Open reads the key (or makes it) and the identity, if there is one. A certificate that is not of the key is not an identity.
func Open(dir string, log *slog.Logger) (*Keeper, error) {
	key, made, err := OpenKey(dir)
	if key == nil {
		return nil, err
	}
	if err != nil {
		log.Warn("device key has one good copy", "err", err)
	}
	codec, err := state.NewCodec()
	if err != nil {
		return nil, err
	}
	k := &Keeper{key: key, codec: codec, file: state.NewFile(dir, identityFile, maxIdentity)}
	loaded, err := k.file.Load()
	if err != nil {
		return nil, err
	}
	for _, p := range loaded.Problems {
		log.Warn("identity file damaged", "err", p)
	}
	if loaded.Payload == nil {
		return k, nil
	}
	var id Identity
	if err := codec.Decode(loaded.Payload, &id); err != nil {
		log.Warn("identity not understood; the device enrolls again", "err", err)
		return k, nil
	}
	if err := k.take(&id); err != nil {
		log.Warn("identity not usable; the device enrolls again", "err", err, "new_key", made)
	}
	return k, nil
}

// take makes id current in memory.
func (k *Keeper) take(id *Identity) error {
	cert, err := x509.ParseCertificate(id.Certificate)
	if err != nil {
		return fmt.Errorf("device certificate: %w", err)
	}
	if pub, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !pub.Equal(k.key.Public()) {
		return errors.New("device certificate is of another key")
	}
	if cert.Subject.CommonName != id.Device || id.ClusterID == "" {
		return fmt.Errorf("device certificate is of %q, not of %q", cert.Subject.CommonName, id.Device)
	}
	pool := x509.NewCertPool()
	for _, der := range id.Roots {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("CA certificate: %w", err)
		}
		pool.AddCert(root)
	}
	if len(id.Roots) == 0 {
		return errors.New("no CA certificate")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id, k.cert, k.pool = id, cert, pool
	return nil
}

// keep makes id current in memory and on disk.
func (k *Keeper) keep(id *Identity) error {
	if err := k.take(id); err != nil {
		return err
	}
	data, err := k.codec.Encode(id)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.Save(data)
}

// Key is the device's key, which opens secrets sealed to it.
func (k *Keeper) Key() *ecdsa.PrivateKey { return k.key }

// Identity is the present identity; ok is false until the device is enrolled.
func (k *Keeper) Identity() (id Identity, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.id == nil {
		return Identity{}, false
	}
	out := *k.id
	out.Endpoints, out.Roots = slices.Clone(out.Endpoints), slices.Clone(out.Roots)
	out.Certificate = bytes.Clone(out.Certificate)
	return out, true
}

// Roots are the pinned CAs; nil until the device is enrolled.
func (k *Keeper) Roots() *x509.CertPool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pool
}

// Certificate is for handshakes: the present certificate with its key.
func (k *Keeper) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cert == nil {
		return nil, errors.New("the device is not enrolled")
	}
	return &tls.Certificate{Certificate: [][]byte{k.cert.Raw}, PrivateKey: k.key, Leaf: k.cert}, nil
}

// Floor is a moment that has passed: the beginning of the certificate's life, by the hub's clock less a day. Zero until enrolled.
func (k *Keeper) Floor() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cert == nil {
		return time.Time{}
	}
	return k.cert.NotBefore
}

// Learn keeps the hub's endpoints. It fits link.Config.Learn.
func (k *Keeper) Learn(endpoints []string) error {
	id, ok := k.Identity()
	if !ok || slices.Equal(id.Endpoints, endpoints) {
		return nil
	}
	id.Endpoints = slices.Clone(endpoints)
	return k.keep(&id)
}

// renewAt is when two thirds of the certificate's life are over.
func (k *Keeper) renewAt() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	life := k.cert.NotAfter.Sub(k.cert.NotBefore)
	return k.cert.NotBefore.Add(life / 3 * 2)
}

// ended reports whether the certificate's life is over.
func (k *Keeper) ended(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.After(k.cert.NotAfter)
}
