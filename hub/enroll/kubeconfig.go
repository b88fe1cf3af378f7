package enroll

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
)

// Kubeconfig writes a kubeconfig for a person's certificate: the first server is the cluster's, all of them stand in the extension
// fleet.drover.dev/servers, which Drover's own client tries in turn. It holds the private key: keep it to its owner (mode 0600).
func (a *Authority) Kubeconfig(user string, cert tls.Certificate, servers []string) ([]byte, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("kubeconfig: no server")
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: encode key: %w", err)
	}
	b64 := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Config\nclusters:\n- name: drover\n  cluster:\n    server: %q\n    certificate-authority-data: %s\n",
		servers[0], b64("CERTIFICATE", a.cert.Raw))
	b.WriteString("    extensions:\n    - name: fleet.drover.dev/servers\n      extension:\n        servers:\n")
	for _, s := range servers {
		fmt.Fprintf(&b, "        - %q\n", s)
	}
	fmt.Fprintf(&b, "users:\n- name: %q\n  user:\n    client-certificate-data: %s\n    client-key-data: %s\n",
		user, b64("CERTIFICATE", cert.Certificate[0]), b64("PRIVATE KEY", key))
	fmt.Fprintf(&b, "contexts:\n- name: drover\n  context: {cluster: drover, user: %q}\ncurrent-context: drover\n", user)
	return []byte(b.String()), nil
}
