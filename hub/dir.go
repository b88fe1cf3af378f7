package hub

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/registry"
)

// Files of a member's directory.
const (
	fileMember  = "member.json"
	fileCA      = "ca.crt"
	fileCert    = "member.crt"
	fileKey     = "member.key"
	fileSealing = "sealing.key"
	fileLog     = "raft.db"
	fileState   = "state"
	fileAdmin   = "admin.kubeconfig"
)

// Identity is what a member is called and where it is reached, chosen once.
type Identity struct {
	Name string `json:"name"`
	API  string `json:"api"`  // host:port of operators and devices
	Peer string `json:"peer"` // host:port of the other members
	// ClusterID is empty until the cluster has been founded.
	ClusterID string `json:"clusterID,omitempty"`
}

// Validate names what is wrong by the flags that it is given by.
func (i Identity) Validate() error {
	var errs []error
	if err := api.CheckDNSName(i.Name); err != nil {
		errs = append(errs, fmt.Errorf("--name: %w", err))
	}
	for _, a := range []struct{ flag, addr string }{{"--api", i.API}, {"--peer", i.Peer}} {
		host, port, err := net.SplitHostPort(a.addr)
		if err != nil || host == "" || port == "" || port == "0" {
			errs = append(errs, fmt.Errorf("%s %q: want host:port as others reach it, as 10.0.0.1:7443 or [fd00::1]:7443", a.flag, a.addr))
		}
	}
	if i.API != "" && i.API == i.Peer {
		errs = append(errs, fmt.Errorf("--api and --peer are both %s: want two ports", i.API))
	}
	return errors.Join(errs...)
}

// member is the identity as consensus knows it.
func (i Identity) member() consensus.Member {
	return consensus.Member{Name: i.Name, PeerAddr: i.Peer, APIAddr: i.API}
}

// hosts are the names and addresses that the member's certificate is for.
func (i Identity) hosts() []string {
	hosts := []string{i.Name}
	for _, addr := range []string{i.API, i.Peer} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != hosts[len(hosts)-1] {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// dir is a member's directory.
type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// Exists tells whether a directory belongs to a member.
func Exists(path string) (bool, error) {
	_, err := os.Stat(dir(path).path(fileMember))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// prepare makes the directory, and locks it for this process. It accepts an empty one, and what an earlier attempt of the
// same kind left, whose unfinished files it removes: keeps names the files that such an attempt leaves.
func (d dir) prepare(kind string, keeps ...string) (io.Closer, error) {
	switch err := os.MkdirAll(string(d), 0o700); {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, d.notDirectory()
	case err != nil:
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := d.check(kind, keeps); err != nil { // before a foreign directory is written to
		return nil, err
	}
	lock, err := d.lock(lockWait)
	if err != nil {
		return nil, err
	}
	err = d.check(kind, keeps) // as it is now that nobody else is at work
	if err == nil {
		err = d.removeUnfinished()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (d dir) check(kind string, keeps []string) error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
	}
	if has(fileMember) {
		return fmt.Errorf("%w: %s belongs to a hub member already: start it without --init and --join, or choose another directory", ErrWrongDir, d)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == fileLock, unfinished(name), slices.Contains(keeps, name):
		case slices.Contains([]string{fileSealing, fileCA, fileCert, fileKey, fileLog, fileState, fileRestoring}, name):
			return fmt.Errorf("%w: %s holds %q, which no %s leaves: repeat what was begun here, or choose an empty directory", ErrWrongDir, d, name, kind)
		case name == "lost+found": // of a file system's own
		default:
			return fmt.Errorf("%w: %s holds %q, which is no file of a hub member: choose an empty directory", ErrWrongDir, d, name)
		}
	}
	return nil
}

// unfinished tells the files that are written aside and renamed when whole; they mean nothing before.
func unfinished(name string) bool {
	if name == fileLog+consensus.NewSuffix || strings.HasPrefix(name, registry.SealPrefix) {
		return true
	}
	for _, of := range []string{fileMember, fileCA, fileCert, fileKey, fileAdmin, fileReset, fileRestoring} {
		if strings.HasPrefix(name, "."+of+"-") {
			return true
		}
	}
	return false
}

func (d dir) removeUnfinished() error {
	if exists(d.path(fileReset)) {
		if err := d.finishReset(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(d.path(folderReset)); err != nil {
		return fmt.Errorf("remove what a reset that was cut short left: %w", err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, e := range entries {
		if !unfinished(e.Name()) && (e.Name() != fileRestoring || !exists(d.path(fileMember))) {
			continue
		}
		if err := os.Remove(d.path(e.Name())); err != nil {
			return fmt.Errorf("remove what a start that was cut short left: %w", err)
		}
	}
	return nil
}

// maxSmall bounds each of the member's files that are read whole, in bytes.
const maxSmall = 64 << 10

// read reads one of the small files.
func (d dir) read(name string) ([]byte, error) {
	switch info, err := os.Stat(d.path(name)); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a device or a pipe may have no end
		return nil, fmt.Errorf("%s is no regular file", d.path(name))
	}
	return readSmall(d.path(name), maxSmall)
}

func (d dir) loadIdentity() (Identity, error) {
	var id Identity
	b, err := d.read(fileMember)
	if errors.Is(err, fs.ErrNotExist) {
		return id, d.notMember()
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return id, d.notDirectory()
	}
	if err != nil {
		return id, err
	}
	err = json.Unmarshal(b, &id)
	if err == nil {
		err = id.Validate()
	}
	if err != nil {
		return id, fmt.Errorf("%w: %s says nothing of a member: put it back from a copy (it holds name, api, peer and clusterID): %w", ErrWrongDir, d.path(fileMember), err)
	}
	return id, nil
}

func (d dir) saveIdentity(id Identity) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return d.write(fileMember, append(b, '\n'))
}

// write replaces a file safely: aside, synced, renamed, and the directory synced.
func (d dir) write(name string, data []byte) error {
	tmp, err := os.CreateTemp(string(d), "."+name+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", d.path(name), err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone once renamed
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), d.path(name))
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", d.path(name), err)
	}
	return nil
}

func (d dir) sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// credentials are what a member shows others and by what it judges them.
type credentials struct {
	cert  tls.Certificate
	roots *x509.CertPool
	ca    []byte // DER
}

// saveCredentials writes the certificate last: with it the set is complete.
func (d dir) saveCredentials(ca []byte, cert tls.Certificate) error {
	key, ok := cert.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("member key is a %T, not ECDSA", cert.PrivateKey)
	}
	if err := d.write(fileCA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})); err != nil {
		return err
	}
	if err := d.saveKey(key); err != nil {
		return err
	}
	return d.write(fileCert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
}

// loadCredentials returns nil while the member has none.
func (d dir) loadCredentials() (*credentials, error) {
	if _, err := os.Stat(d.path(fileCert)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	certText, errCert := d.read(fileCert)
	keyText, errKey := d.read(fileKey)
	if err := errors.Join(errCert, errKey); err != nil {
		return nil, fmt.Errorf("load member certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("load member certificate: %w", err)
	}
	text, err := d.read(fileCA)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("load CA: %s holds no certificate", d.path(fileCA))
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	if err := cert.Leaf.CheckSignatureFrom(ca); err != nil {
		return nil, fmt.Errorf("load member certificate: %s was not issued by the CA in %s: is one of them a file of another hub? %w", d.path(fileCert), fileCA, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	return &credentials{cert: cert, roots: roots, ca: block.Bytes}, nil
}

// loadKey reads the member's key alone; os.ErrNotExist when there is none.
func (d dir) loadKey() (*ecdsa.PrivateKey, error) {
	text, err := d.read(fileKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key", d.path(fileKey))
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.path(fileKey), err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read %s: it is no ECDSA key", d.path(fileKey))
	}
	return ec, nil
}

func (d dir) saveKey(key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode member key: %w", err)
	}
	return d.write(fileKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
