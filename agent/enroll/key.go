package enroll

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The key's two copies. Each is written once.
const (
	keyFile  = "device.key"
	keyCopy  = "device.key.copy"
	maxKey   = 8 << 10
	pemBlock = "PRIVATE KEY"
)

// OpenKey reads the device's key, or makes it when there is none. A damaged copy is made whole from the other. When both are damaged
// they are set aside and a key is made anew: the device then has to ask for its name again, which an operator approves.
func OpenKey(dir string) (key *ecdsa.PrivateKey, made bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("device key: %w", err)
	}
	paths := [2]string{filepath.Join(dir, keyFile), filepath.Join(dir, keyCopy)}
	for i, p := range paths {
		data, err := readKey(p)
		if err != nil {
			continue
		}
		if key, err = parseKey(data); err != nil {
			continue
		}
		return key, false, heal(paths[1-i], data)
	}
	for _, p := range paths {
		if err := os.Rename(p, p+".bad"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, fmt.Errorf("set damaged key aside: %w", err)
		}
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, false, fmt.Errorf("make device key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, false, fmt.Errorf("encode device key: %w", err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: pemBlock, Bytes: der})
	for _, p := range paths {
		if err := writeOnce(p, data); err != nil {
			return nil, false, fmt.Errorf("keep device key: %w", err)
		}
	}
	return key, true, nil
}

// heal makes the other copy equal to the good one.
func heal(path string, good []byte) error {
	have, err := readKey(path)
	if err == nil && bytes.Equal(have, good) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace damaged copy of the device key: %w", err)
	}
	if err := writeOnce(path, good); err != nil {
		return fmt.Errorf("replace damaged copy of the device key: %w", err)
	}
	return nil
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return io.ReadAll(io.LimitReader(f, maxKey))
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	b, _ := pem.Decode(data)
	if b == nil || b.Type != pemBlock {
		return nil, errors.New("device key is not PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("device key: %w", err)
	}
	ec, ok := k.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("device key is not ECDSA on P-256")
	}
	return ec, nil
}

// writeOnce writes aside, syncs, and links into place: the file is never seen half written and never replaced.
func writeOnce(path string, data []byte) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp) }() // a leftover is truncated by the next try
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Link(tmp, path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // only synced
	return d.Sync()
}
