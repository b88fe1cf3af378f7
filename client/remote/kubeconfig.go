package remote

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxKubeconfig bounds a kubeconfig file and each file it names, in bytes.
const maxKubeconfig = 1 << 20

// serversExtension is the extension of a cluster entry that lists every member's URL; kubectl ignores it and uses server.
const serversExtension = "fleet.drover.dev/servers"

// Kubeconfig is what a kubeconfig file's current context says.
type Kubeconfig struct {
	Servers    []string // https URLs, the cluster's server first
	ServerName string   // TLS name to expect instead of the URL's host; "" = the host
	Namespace  string   // of the context; "" = none given
	CA         []byte   // PEM
	Cert       []byte   // PEM
	Key        []byte   // PEM; never printed
}

// file is the part of a kubeconfig that Drover reads.
type file struct {
	CurrentContext string `yaml:"current-context"`
	Clusters       []struct {
		Name    string  `yaml:"name"`
		Cluster cluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string         `yaml:"name"`
		User map[string]any `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster   string `yaml:"cluster"`
			User      string `yaml:"user"`
			Namespace string `yaml:"namespace"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

type cluster struct {
	Server        string `yaml:"server"`
	TLSServerName string `yaml:"tls-server-name"`
	CAFile        string `yaml:"certificate-authority"`
	CAData        string `yaml:"certificate-authority-data"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	ProxyURL      string `yaml:"proxy-url"`
	Extensions    []struct {
		Name      string `yaml:"name"`
		Extension struct {
			Servers []string `yaml:"servers"`
		} `yaml:"extension"`
	} `yaml:"extensions"`
}

// LoadKubeconfig reads a file's current context, or the one named. Paths in it are relative to its folder.
func LoadKubeconfig(path, context string) (*Kubeconfig, error) {
	data, err := readCapped(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c, err := ParseKubeconfig(data, filepath.Dir(path), context)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return c, nil
}

// ParseKubeconfig reads the bytes of a kubeconfig; files it names are looked for in dir.
func ParseKubeconfig(data []byte, dir, context string) (*Kubeconfig, error) {
	if len(data) > maxKubeconfig {
		return nil, fmt.Errorf("is %d bytes; the limit is %d bytes", len(data), maxKubeconfig)
	}
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, withoutValues(err)
	}
	if context == "" {
		context = f.CurrentContext
	}
	if context == "" {
		return nil, errors.New("current-context is not set")
	}
	for _, c := range f.Contexts {
		if c.Name == context {
			return f.resolve(dir, c.Context.Cluster, c.Context.User, c.Context.Namespace)
		}
	}
	return nil, fmt.Errorf("context %q is not there", context)
}

// withoutValues keeps a parse error from showing a key that stands in the file: only the first line of the message, which says
// where, is kept.
func withoutValues(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > 120 {
		line = line[:120]
	}
	return fmt.Errorf("is not valid YAML: %s", line)
}

func (f *file) resolve(dir, clusterName, userName, namespace string) (*Kubeconfig, error) {
	k := &Kubeconfig{Namespace: namespace}
	found := false
	for _, c := range f.Clusters {
		if c.Name == clusterName && !found {
			found = true
			if err := k.takeCluster(&c.Cluster, dir); err != nil {
				return nil, fmt.Errorf("cluster %q: %w", clusterName, err)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("cluster %q is not there", clusterName)
	}
	for _, u := range f.Users {
		if u.Name != userName {
			continue
		}
		if err := k.takeUser(u.User, dir); err != nil {
			return nil, fmt.Errorf("user %q: %w", userName, err)
		}
		return k, nil
	}
	return nil, fmt.Errorf("user %q is not there", userName)
}

func (k *Kubeconfig) takeCluster(c *cluster, dir string) error {
	switch {
	case c.Insecure:
		return errors.New("insecure-skip-tls-verify is not supported: give certificate-authority-data")
	case c.ProxyURL != "":
		return errors.New("proxy-url is not supported")
	}
	servers := []string{c.Server}
	for _, e := range c.Extensions {
		if e.Name == serversExtension {
			servers = append(servers, e.Extension.Servers...)
		}
	}
	for _, s := range servers {
		base, err := checkServer(s)
		if err != nil {
			return err
		}
		if !slices.Contains(k.Servers, base) {
			k.Servers = append(k.Servers, base)
		}
	}
	k.ServerName = c.TLSServerName
	var err error
	k.CA, err = fileOrData("certificate-authority", c.CAFile, c.CAData, dir)
	return err
}

// UseServer has only this member asked; "" leaves the servers as they are.
func (k *Kubeconfig) UseServer(url string) error {
	if url == "" {
		return nil
	}
	base, err := checkServer(url)
	if err == nil {
		k.Servers = []string{base}
	}
	return err
}

// checkServer allows https://host[:port] only: there is nothing of Drover below another path, and nothing without TLS.
func checkServer(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("server %q: want https://HOST:PORT", s)
	}
	return "https://" + u.Host, nil
}

func (k *Kubeconfig) takeUser(user map[string]any, dir string) error {
	known := []string{"client-certificate", "client-certificate-data", "client-key", "client-key-data"}
	text := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(user)) {
		v, isText := user[field].(string)
		if !slices.Contains(known, field) {
			return fmt.Errorf("%s is not supported: give client-certificate-data and client-key-data", field)
		}
		if !isText {
			return fmt.Errorf("%s: want a string", field)
		}
		text[field] = v
	}
	var err error
	if k.Cert, err = fileOrData("client-certificate", text["client-certificate"], text["client-certificate-data"], dir); err != nil {
		return err
	}
	k.Key, err = fileOrData("client-key", text["client-key"], text["client-key-data"], dir)
	return err
}

// fileOrData reads NAME-data where it is given, else the file NAME, as kubectl does.
func fileOrData(name, path, data, dir string) ([]byte, error) {
	switch {
	case data != "":
		b, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("%s-data is not base64", name) // the error could show a part of a key
		}
		return b, nil
	case path == "":
		return nil, fmt.Errorf("neither %s-data nor %s is given", name, name)
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	b, err := readCapped(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func readCapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKubeconfig+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxKubeconfig {
		return nil, fmt.Errorf("%s is more than %d bytes", path, maxKubeconfig)
	}
	return b, nil
}
