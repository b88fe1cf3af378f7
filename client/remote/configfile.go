package remote

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"
)

// ConfigFile is a kubeconfig file that is looked through or changed as a whole. Entries and fields that Drover does not know are
// kept; comments are not. It holds credentials and does not print.
type ConfigFile struct {
	doc map[string]any
}

// ContextEntry is one context of a file.
type ContextEntry struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace,omitempty"`
	Server    string `json:"server,omitempty"`
	LoggedIn  bool   `json:"loggedIn"` // the user has an entry
}

// Format prints nothing of it, whatever the verb.
func (f *ConfigFile) Format(s fmt.State, _ rune) { fmt.Fprint(s, "ConfigFile(...)") }

// ReadConfigFile reads a file. One that is not there is an error of the kind fs.ErrNotExist.
func ReadConfigFile(path string) (*ConfigFile, error) {
	data, err := readCapped(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	f, err := parseConfigFile(data)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return f, nil
}

func parseConfigFile(data []byte) (*ConfigFile, error) {
	f := &ConfigFile{doc: map[string]any{}}
	if err := yaml.Unmarshal(data, &f.doc); err != nil {
		return nil, withoutValues(err)
	}
	if f.doc == nil {
		f.doc = map[string]any{}
	}
	for _, list := range []string{"clusters", "users", "contexts"} {
		entries, ok := f.doc[list].([]any)
		if f.doc[list] != nil && !ok {
			return nil, fmt.Errorf("%s: want a list", list)
		}
		for i, e := range entries {
			if m, ok := e.(map[string]any); !ok || text(m, "name") == "" {
				return nil, fmt.Errorf("%s[%d]: want an entry with a name", list, i)
			}
		}
	}
	return f, nil
}

// EditConfigFile changes a file, or makes it: edit gets what it holds, and what edit leaves is put in its place at once, readable by
// the owner only. Other commands that keep to kubectl's lock file wait their turn by failing.
func EditConfigFile(path string, edit func(*ConfigFile) error) (err error) {
	if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = real // a link stays one
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	lock := path + ".lock"
	l, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("kubeconfig %s: another command is changing it (%s is there); try again, or remove that file if none is", path, lock)
	}
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close(), os.Remove(lock)) }()
	f, err := ReadConfigFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = &ConfigFile{doc: map[string]any{}}, nil
	}
	if err != nil {
		return err
	}
	if err := edit(f); err != nil {
		return err
	}
	b, err := f.encode()
	if err != nil {
		return err
	}
	return WriteSecretFile(path, b)
}

func (f *ConfigFile) encode() ([]byte, error) {
	f.doc["apiVersion"], f.doc["kind"] = "v1", "Config"
	b, err := yaml.Marshal(f.doc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if len(b) > maxKubeconfig {
		return nil, fmt.Errorf("kubeconfig: it would be %d bytes; the limit is %d bytes", len(b), maxKubeconfig)
	}
	return b, nil
}

// WriteSecretFile puts a file that only its owner can read in place at once: readers see what was there, or all of the new one.
func WriteSecretFile(path string, b []byte) (err error) {
	t, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(t.Name())))
		}
	}()
	_, err = t.Write(b)
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}

// text is a field of an entry; "" where it is none.
func text(m map[string]any, field string) string {
	s, _ := m[field].(string)
	return s
}

func part(m map[string]any, field string) map[string]any {
	p, _ := m[field].(map[string]any)
	return p
}

func (f *ConfigFile) entries(list string) []any {
	l, _ := f.doc[list].([]any)
	return l
}

// entry is the first of a list that has the name; nil where none has.
func (f *ConfigFile) entry(list, name string) map[string]any {
	for _, e := range f.entries(list) {
		if m, ok := e.(map[string]any); ok && text(m, "name") == name {
			return m
		}
	}
	return nil
}

func (f *ConfigFile) drop(list, name string) {
	f.doc[list] = slices.DeleteFunc(f.entries(list), func(e any) bool {
		m, ok := e.(map[string]any)
		return ok && text(m, "name") == name
	})
}

func (f *ConfigFile) put(list, name, field string, value map[string]any) {
	if e := f.entry(list, name); e != nil {
		e[field] = value
		return
	}
	f.doc[list] = append(f.entries(list), map[string]any{"name": name, field: value})
}

// Current is the name of the current context; "" = none.
func (f *ConfigFile) Current() string { return text(f.doc, "current-context") }

// Contexts lists the file's contexts, by name.
func (f *ConfigFile) Contexts() []ContextEntry {
	seen := map[string]ContextEntry{}
	for _, e := range f.entries("contexts") {
		m, _ := e.(map[string]any)
		c := part(m, "context")
		name := text(m, "name")
		if _, twice := seen[name]; twice {
			continue
		}
		seen[name] = ContextEntry{
			Name: name, Current: name == f.Current(), Cluster: text(c, "cluster"), User: text(c, "user"), Namespace: text(c, "namespace"),
			Server: text(part(f.entry("clusters", text(c, "cluster")), "cluster"), "server"), LoggedIn: f.entry("users", text(c, "user")) != nil,
		}
	}
	var out []ContextEntry
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, seen[name])
	}
	return out
}

// Find is a context by name, "" the current one.
func (f *ConfigFile) Find(name string) (ContextEntry, error) {
	if name == "" {
		if name = f.Current(); name == "" {
			return ContextEntry{}, errors.New("no context is the current one: name one (drover context list)")
		}
	}
	all := f.Contexts()
	i := slices.IndexFunc(all, func(c ContextEntry) bool { return c.Name == name })
	if i < 0 {
		return ContextEntry{}, fmt.Errorf("there is no context %q (drover context list)", name)
	}
	return all[i], nil
}

// Use makes a context the current one.
func (f *ConfigFile) Use(name string) error {
	_, err := f.Find(name)
	if err == nil {
		f.doc["current-context"] = name
	}
	return err
}

// Rename gives a context another name. Its cluster and user keep theirs.
func (f *ConfigFile) Rename(from, to string) error {
	if _, err := f.Find(from); err != nil {
		return err
	}
	if f.entry("contexts", to) != nil {
		return fmt.Errorf("there is a context %q already", to)
	}
	f.entry("contexts", from)["name"] = to
	if f.Current() == from {
		f.doc["current-context"] = to
	}
	return nil
}

// Delete removes a context, with its cluster and user where no other context has them.
func (f *ConfigFile) Delete(name string) error {
	c, err := f.Find(name)
	if err != nil {
		return err
	}
	f.drop("contexts", c.Name)
	if c.Current {
		f.doc["current-context"] = ""
	}
	if len(f.sharing("cluster", c.Cluster, c.Name)) == 0 {
		f.drop("clusters", c.Cluster)
	}
	if len(f.sharing("user", c.User, c.Name)) == 0 {
		f.drop("users", c.User)
	}
	return nil
}

// sharing lists the other contexts that have a cluster or user.
func (f *ConfigFile) sharing(field, name, but string) []string {
	var out []string
	for _, c := range f.Contexts() {
		has := c.User
		if field == "cluster" {
			has = c.Cluster
		}
		if has == name && c.Name != but {
			out = append(out, c.Name)
		}
	}
	return out
}

// Logout forgets the credentials of a context, which stays for the next login. What it returns is the other contexts that had the
// same credentials.
func (f *ConfigFile) Logout(name string) (was ContextEntry, others []string, err error) {
	if was, err = f.Find(name); err != nil {
		return was, nil, err
	}
	f.drop("users", was.User)
	return was, f.sharing("user", was.User, was.Name), nil
}

// Login puts a context of the kubeconfig's name with cluster and user of its own there, and makes it the current one. Entries
// that another context uses are not touched: that is an error.
func (f *ConfigFile) Login(k *Kubeconfig) error {
	name := k.Context
	cluster, user := name, name
	if c, err := f.Find(name); err == nil {
		servers := f.serversOf(c)
		if !slices.ContainsFunc(k.Servers, func(s string) bool { return slices.Contains(servers, s) }) {
			return fmt.Errorf("context %q leads to another hub, %s: give --name, or drover context delete %s", name, c.Server, name)
		}
		cluster, user = c.Cluster, c.User
	}
	for field, entry := range map[string]string{"cluster": cluster, "user": user} {
		if others := f.sharing(field, entry, name); len(others) > 0 {
			return fmt.Errorf("%s %q belongs to context %q too: give --name", field, entry, others[0])
		}
	}
	f.put("clusters", cluster, "cluster", k.clusterEntry())
	f.put("users", user, "user", k.Credentials.entry())
	context := map[string]any{"cluster": cluster, "user": user}
	if k.Namespace != "" {
		context["namespace"] = k.Namespace
	}
	f.put("contexts", name, "context", context)
	f.doc["current-context"] = name
	return nil
}

func (f *ConfigFile) serversOf(c ContextEntry) []string {
	b, err := yaml.Marshal(f.doc)
	if err != nil {
		return []string{c.Server}
	}
	var doc file
	if yaml.Unmarshal(b, &doc) != nil {
		return []string{c.Server}
	}
	k := &Kubeconfig{}
	for _, e := range doc.Clusters {
		if e.Name == c.Cluster && k.takeServers(&e.Cluster) == nil {
			return k.Servers
		}
	}
	return []string{c.Server}
}

// clusterEntry is the cluster as a kubeconfig writes it. kubectl uses the first server only.
func (k *Kubeconfig) clusterEntry() map[string]any {
	e := map[string]any{
		"server": k.Servers[0], "certificate-authority-data": base64.StdEncoding.EncodeToString(k.CA),
		"extensions": []any{map[string]any{"name": serversExtension, "extension": map[string]any{"servers": k.Servers}}},
	}
	if k.ServerName != "" {
		e["tls-server-name"] = k.ServerName
	}
	return e
}

// entry is the user as a kubeconfig writes it.
func (c Credentials) entry() map[string]any {
	e := map[string]any{}
	if len(c.Cert) > 0 {
		e["client-certificate-data"] = base64.StdEncoding.EncodeToString(c.Cert)
		e["client-key-data"] = base64.StdEncoding.EncodeToString(c.Key)
	}
	if c.Token != "" {
		e["token"] = string(c.Token)
	}
	if c.TokenFile != "" {
		e["tokenFile"] = c.TokenFile
	}
	if c.As != "" {
		e["as"] = c.As
	}
	if len(c.AsGroups) > 0 {
		e["as-groups"] = c.AsGroups
	}
	return e
}

// Encode is the kubeconfig as a file with one context.
func (k *Kubeconfig) Encode() ([]byte, error) {
	if len(k.Servers) == 0 {
		return nil, errors.New("no server is given")
	}
	f := &ConfigFile{doc: map[string]any{}}
	if err := f.Login(k); err != nil {
		return nil, err
	}
	b, err := f.encode()
	return bytes.Clone(b), err
}
