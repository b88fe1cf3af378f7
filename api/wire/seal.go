package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"

	"github.com/drover-fleet/drover/api/fault"
)

const sealInfo = "drover/seal/1"

// Seal encrypts plain so that only the holder of the P-256 key pub can read it, bound to ref. Each call draws a key of its
// own (ECDH with an ephemeral key), so the nonce is constant.
func Seal(pub *ecdsa.PublicKey, ref SecretRef, plain []byte) (Sealed, error) {
	to, err := pub.ECDH()
	if err != nil {
		return Sealed{}, fault.Invalid.Errorf("seal %s: device's key: %w", ref.Name, err)
	}
	eph, err := to.Curve().GenerateKey(rand.Reader)
	if err != nil {
		return Sealed{}, fault.Internal.Errorf("seal %s: %w", ref.Name, err)
	}
	shared, err := eph.ECDH(to)
	if err != nil {
		return Sealed{}, fault.Internal.Errorf("seal %s: %w", ref.Name, err)
	}
	aead, aad, err := sealer(shared, eph.PublicKey(), to, ref)
	if err != nil {
		return Sealed{}, err
	}
	return Sealed{Ref: ref, Ephemeral: eph.PublicKey().Bytes(), Ciphertext: aead.Seal(nil, make([]byte, aead.NonceSize()), plain, aad)}, nil
}

// Unseal is the reverse of [Seal]. Forbidden when s is not sealed to priv or was changed.
func Unseal(priv *ecdsa.PrivateKey, s Sealed) ([]byte, error) {
	own, err := priv.ECDH()
	if err != nil {
		return nil, fault.Internal.Errorf("unseal %s: device's key: %w", s.Ref.Name, err)
	}
	eph, err := own.Curve().NewPublicKey(s.Ephemeral)
	if err != nil {
		return nil, fault.Forbidden.Errorf("unseal %s: %w", s.Ref.Name, err)
	}
	shared, err := own.ECDH(eph)
	if err != nil {
		return nil, fault.Forbidden.Errorf("unseal %s: %w", s.Ref.Name, err)
	}
	aead, aad, err := sealer(shared, eph, own.PublicKey(), s.Ref)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), s.Ciphertext, aad)
	if err != nil {
		return nil, fault.Forbidden.Errorf("unseal %s: not sealed to this device, or damaged", s.Ref.Name)
	}
	return plain, nil
}

// sealer derives the cipher from the shared point and both public keys; the additional data is the encoded ref.
func sealer(shared []byte, eph, to *ecdh.PublicKey, ref SecretRef) (cipher.AEAD, []byte, error) {
	salt := append(eph.Bytes(), to.Bytes()...)
	key, err := hkdf.Key(sha256.New, shared, salt, sealInfo, 32)
	if err != nil {
		return nil, nil, fault.Internal.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fault.Internal.Errorf("cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fault.Internal.Errorf("cipher: %w", err)
	}
	aad, err := Encode(ref)
	if err != nil {
		return nil, nil, err
	}
	return aead, aad, nil
}
