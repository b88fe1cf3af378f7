package remote

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
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

// Kubeconfig is what a kubeconfig file's current context says. It prints no credentials.
type Kubeconfig struct {
	Context    string   // the context's name
	Servers    []string // https URLs, the cluster's server first
	ServerName string   // TLS name to expect instead of the URL's host; "" = the host
	Namespace  string   // of the context; "" = none given
	CA         []byte   // PEM
	Credentials
}

// Format prints where it leads, whatever the verb.
func (k Kubeconfig) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "Kubeconfig(%s: %s)", k.Context, strings.Join(k.Servers, " "))
}

// file is the part of a kubeconfig that Drover reads.
type file struct {
	CurrentContext string         `yaml:"current-context"`
	Clusters       []clusterEntry `yaml:"clusters"`
	Users          []struct {
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

type clusterEntry struct {
	Name    string  `yaml:"name"`
	Cluster cluster `yaml:"cluster"`
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

// ErrNoContext is the cause of an error about a context that is not in the file.
var ErrNoContext = errors.New("is not there")

// LoadCluster reads where a context leads, without the credentials: they may be missing or wrong.
func LoadCluster(path, context string) (*Kubeconfig, error) {
	data, err := readCapped(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, withoutValues(err))
	}
	for _, c := range f.Contexts {
		if c.Name == context {
			k := &Kubeconfig{Context: context, Namespace: c.Context.Namespace}
			i := slices.IndexFunc(f.Clusters, func(e clusterEntry) bool { return e.Name == c.Context.Cluster })
			if i < 0 {
				break
			}
			return k, k.takeCluster(&f.Clusters[i].Cluster, filepath.Dir(path))
		}
	}
	return nil, fmt.Errorf("context %q %w", context, ErrNoContext)
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
			k := &Kubeconfig{Context: context, Namespace: c.Context.Namespace}
			return k, f.resolve(k, dir, c.Context.Cluster, c.Context.User)
		}
	}
	return nil, fmt.Errorf("context %q %w", context, ErrNoContext)
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

func (f *file) resolve(k *Kubeconfig, dir, clusterName, userName string) error {
	i := slices.IndexFunc(f.Clusters, func(c clusterEntry) bool { return c.Name == clusterName })
	if i < 0 {
		return fmt.Errorf("cluster %q is not there", clusterName)
	}
	if err := k.takeCluster(&f.Clusters[i].Cluster, dir); err != nil {
		return fmt.Errorf("cluster %q: %w", clusterName, err)
	}
	for _, u := range f.Users {
		if u.Name != userName {
			continue
		}
		if err := k.Credentials.take(u.User, dir); err != nil {
			return fmt.Errorf("user %q: %w", userName, err)
		}
		return nil
	}
	return &LoggedOutError{Context: k.Context, User: userName, Server: k.Servers[0]}
}

// LoggedOutError tells of a context whose user has no entry in the file.
type LoggedOutError struct{ Context, User, Server string }

func (e *LoggedOutError) Error() string {
	return fmt.Sprintf("user %q of context %q is not there: nobody is logged in; see drover login %s", e.User, e.Context, e.Server)
}

func (k *Kubeconfig) takeCluster(c *cluster, dir string) error {
	switch {
	case c.Insecure:
		return errors.New("insecure-skip-tls-verify is not supported: give certificate-authority-data")
	case c.ProxyURL != "":
		return errors.New("proxy-url is not supported")
	}
	if err := k.takeServers(c); err != nil {
		return err
	}
	k.ServerName = c.TLSServerName
	var err error
	k.CA, err = fileOrData("certificate-authority", c.CAFile, c.CAData, dir)
	return err
}

func (k *Kubeconfig) takeServers(c *cluster) error {
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
	return nil
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
