package side

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-fleet/drover/test/bench/store/load"
	"github.com/drover-fleet/drover/test/lab"
)

// Etcd starts three members of etcd.
func (h *House) Etcd(ctx context.Context) (*Side, error) {
	s := &Side{Name: "etcd", driver: []string{filepath.Join(h.bin, "bench-etcd"), "load"}}
	var err error
	if s.tls, err = makeTLS(h.peer.Dir); err != nil {
		return nil, err
	}
	var cluster []string
	peers := make([]string, Members)
	for i := range Members {
		s.Endpoints = append(s.Endpoints, fmt.Sprintf("127.0.0.1:%d", 17551+2*i))
		peers[i] = fmt.Sprintf("https://127.0.0.1:%d", 17552+2*i)
		cluster = append(cluster, fmt.Sprintf("e%d=%s", i+1, peers[i]))
		s.Dirs = append(s.Dirs, h.peer.Path(fmt.Sprintf("e%d", i+1)))
	}
	s.Procs = func(i int) *lab.Process { return h.peer.Procs[fmt.Sprintf("e%d", i+1)] }
	s.Restart = func(_ context.Context, i int) error {
		name := fmt.Sprintf("e%d", i+1)
		return h.peer.Start(lab.Spec{Name: name, Path: s.driver[0], Args: []string{
			"serve", "-name", name, "-dir", s.Dirs[i], "-initial-cluster", strings.Join(cluster, ","),
			"-client", "https://" + s.Endpoints[i], "-peer", peers[i], "-ca", s.tls[0], "-cert", s.tls[1], "-key", s.tls[2],
		}})
	}
	s.Leader = s.etcdLeader
	for i := range Members {
		if err := s.Restart(ctx, i); err != nil {
			return nil, err
		}
	}
	if _, err := s.Run(ctx, load.Spec{Op: load.OpProbe, ValueBytes: 16}); err != nil {
		return nil, fmt.Errorf("start etcd: %w: %s", err, h.peer.Tail("e1", 10))
	}
	return s, nil
}

func (s *Side) etcdLeader(ctx context.Context) (int, error) {
	in, err := json.Marshal(load.Spec{Endpoints: s.Endpoints, CA: s.tls[0], Cert: s.tls[1], Key: s.tls[2]})
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, s.driver[0], "leader")
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its leader: %w", err)
	}
	i := slices.Index(s.Endpoints, strings.TrimSpace(string(out)))
	if i < 0 {
		return 0, fmt.Errorf("leader %q is no member", out)
	}
	return i, nil
}

// makeTLS makes a CA and one certificate for members and clients, with keys as Drover's.
func makeTLS(dir string) (files [3]string, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "bench"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return files, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return files, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return files, err
	}
	var errs []error
	for i, b := range []*pem.Block{{Type: "CERTIFICATE", Bytes: caDER}, {Type: "CERTIFICATE", Bytes: leafDER}, {Type: "PRIVATE KEY", Bytes: keyDER}} {
		files[i] = filepath.Join(dir, []string{"ca.pem", "cert.pem", "key.pem"}[i])
		errs = append(errs, os.WriteFile(files[i], pem.EncodeToMemory(b), 0o600))
	}
	return files, errors.Join(errs...)
}
