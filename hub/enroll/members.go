package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/store"
)

// Members judges certificates of members by the keys that are on record. A certificate is good for a year; whose it is may end sooner, when
// the member is removed, or comes back with another key. It reads what this member of the hub has, and is safe for concurrent use.
type Members struct {
	Reader store.Reader
}

// Holds reports whether the certificate's key is the one that the member of its name has now. A name without a record counts: it is of
// a member that was there before keys were recorded, and has not started since.
func (m Members) Holds(cert *x509.Certificate) bool {
	fp, err := certFingerprint(cert)
	if err != nil {
		return false
	}
	now, err := m.read(prefixKey + cert.Subject.CommonName)
	return err == nil && (now == "" || now == fp)
}

// Superseded reports whether the certificate's key was a member's and another key has taken its place. A key that was never heard of is
// not: this member may be behind, and learn of it by the very connection that the certificate opens.
func (m Members) Superseded(cert *x509.Certificate) bool {
	fp, err := certFingerprint(cert)
	if err != nil {
		return false
	}
	was, err := m.read(prefixJoin + strings.TrimPrefix(fp, "sha256:"))
	if err != nil || was == "" {
		return false
	}
	now, err := m.read(prefixKey + cert.Subject.CommonName)
	return err == nil && now != "" && now != fp
}

func (m Members) read(key string) (string, error) {
	res, err := m.Reader.Range(context.Background(), store.RangeRequest{Start: key})
	if err != nil || len(res.KVs) == 0 {
		return "", err
	}
	return string(res.KVs[0].Value), nil
}

// RecordMember puts this member's own key on record where none is, and, when alone says that there is no other member, whatever is: after
// a restore or a reset the member that is left has a key of its own. fault.Conflict: another key has taken the member's place.
func RecordMember(ctx context.Context, r Records, cert *x509.Certificate, alone bool) error {
	fp, err := certFingerprint(cert)
	if err != nil {
		return err
	}
	name := cert.Subject.CommonName
	mark := prefixJoin + strings.TrimPrefix(fp, "sha256:")
	now, ok, err := r.Read(ctx, prefixKey+name)
	switch {
	case err != nil:
		return err
	case ok && string(now) == fp:
		return nil
	case ok && !alone:
		return fault.Conflict.Errorf("another key has taken the place of member %s's: this directory is an old one; move it away and join again with drover-hub --join", name)
	}
	if err := r.Put(ctx, mark, []byte(name)); err != nil {
		return err
	}
	return r.Put(ctx, prefixKey+name, []byte(fp))
}

func certFingerprint(cert *x509.Certificate) (string, error) {
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return "", fmt.Errorf("certificate of %q has a key of type %T", cert.Subject.CommonName, cert.PublicKey)
	}
	return Fingerprint(key)
}
