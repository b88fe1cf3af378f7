package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-fleet/drover/client/remote"
)

// canaries are secrets that were given to the fleet, by how they came in.
type canaries map[string]string

// mark begins every secret that is made up, so that a file without it need not be searched for each.
const mark = "canary-"

// plant makes one up and remembers it.
func (c canaries) plant(how string) string {
	c[how] = mark + rand.Text()
	return c[how]
}

// forms are what a secret looks like in a file: as it is, and in the encodings in which anything here is ever written. Of base64 only what does not
// depend on the bytes around it is looked for, at each of the three places where it can begin.
func forms(secret string) [][]byte {
	b := []byte(secret)
	out := [][]byte{b, []byte(hex.EncodeToString(b)), []byte(strings.ToUpper(hex.EncodeToString(b)))}
	for skip := range 3 {
		whole := b[skip : skip+(len(b)-skip)/3*3]
		out = append(out, []byte(base64.StdEncoding.EncodeToString(whole)), []byte(base64.URLEncoding.EncodeToString(whole)))
	}
	return out
}

// within tells which of the secrets stand in some bytes.
func (c canaries) within(b []byte) (found []string) {
	marked := contains(b, mark)
	for how, secret := range c {
		if (marked || !strings.HasPrefix(secret, mark)) && contains(b, secret) {
			found = append(found, how)
		}
	}
	return found
}

func contains(b []byte, secret string) bool {
	return slices.ContainsFunc(forms(secret), func(f []byte) bool { return bytes.Contains(b, f) })
}

// Planted secrets of every kind reach whom they are for, and stand in clear in no log and no file of hub and device, in no answer to others, in no
// refusal, in no backup and no support bundle, also when everything is logged and after processes were made to show where they are or to crash.
func TestSecretsStandNowhereInClear(t *testing.T) {
	f := shared
	f.logsEverything(t)
	c := canaries{}
	f.plantInAWorkload(t, c)
	defer f.remove(t, "keeper")
	defer f.drover(t, 0, "delete", "devicepool", "facts")
	f.plantCredentials(t, c)
	f.plantInRefusals(t, c)

	for _, args := range []string{
		"describe secret canary", "why secret/canary", "why workload/keeper", "history secret/canary", "history workload/keeper", "get workloads -o yaml", "get assignments -o yaml",
		"get workloadrevisions -o yaml", "get events -o yaml", "get jointokens -o yaml", "get serviceaccounts -o yaml", "get devices -o yaml", "audit", "audit -o json", "hub status -o json",
	} {
		out, err := f.Drover(within(t, time.Minute), strings.Fields(args)...)
		for _, how := range c.within([]byte(fmt.Sprint(out, err))) {
			t.Errorf("drover %s prints the %s", args, how)
		}
		if err != nil && !strings.HasPrefix(args, "history") {
			t.Errorf("drover %s: %v", args, err)
		}
	}
	bundle := filepath.Join(t.TempDir(), "help.tgz")
	f.drover(t, 0, "debug", "collect", "-o", bundle)
	backup := filepath.Join(t.TempDir(), "hub.backup")
	f.drover(t, 0, "hub", "snapshot", "save", backup)
	f.crash(t)

	for name, b := range unpacked(t, bundle) {
		for _, how := range c.within(b) {
			t.Errorf("the %s stands in %s of the support bundle", how, name)
		}
	}
	b, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range c.within(b) {
		t.Errorf("the %s stands in the backup", how)
	}
	found, files := f.search(t, f.Dir, c)
	for _, what := range found {
		t.Error(what)
	}
	if files < 50 {
		t.Errorf("only %d files were searched: the search itself is broken", files)
	}
	f.searchFinds(t)
}

// logsEverything starts members and agents again at the highest level of their logs, and where whatever ends badly may leave a core file.
func (f *fleet) logsEverything(t *testing.T) {
	t.Helper()
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &most); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: most.Max, Max: most.Max}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_CORE, &most) //nolint:errcheck // it was so before
	t.Setenv("GOTRACEBACK", "crash")
	hub, agent := f.HubArgs, f.AgentArgs
	f.HubArgs, f.AgentArgs = append(hub[:len(hub):len(hub)], "--log-level", "debug"), append(agent[:len(agent):len(agent)], "--log-level", "debug")
	t.Cleanup(func() { f.HubArgs, f.AgentArgs = hub, agent })
	for i, m := range f.Members {
		f.again(t, m.Name, func() error { return f.StartMember(within(t, time.Minute), i) })
	}
	for _, d := range f.Devices {
		f.again(t, d, func() error {
			return errors.Join(f.StartAgent(within(t, time.Minute), d), f.Ready(within(t, time.Minute), d))
		})
	}
}

func (f *fleet) again(t *testing.T, name string, start func() error) {
	t.Helper()
	if err := errors.Join(f.Procs[name].Stop(within(t, time.Minute), 20*time.Second), start()); err != nil {
		t.Fatal(err)
	}
}

// plantInAWorkload gives a workload a secret as a variable and waits until the container has it.
func (f *fleet) plantInAWorkload(t *testing.T, c canaries) {
	t.Helper()
	env := c.plant("variable of a running workload")
	data := base64.StdEncoding.EncodeToString([]byte(c.plant("data of a Secret")))
	f.droverIn(t, 0, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: canary}\ndata: {data: %s}\nstringData: {token: %s}\n", data, env), "apply", "-f", "-")
	manifest := strings.Replace(f.workload("keeper", "1.0", "x"), "        env:\n",
		"        args: [env, TOKEN, /facts/token]\n        volumeMounts: [{name: facts, mountPath: /facts}]\n        env:\n        - {name: TOKEN, valueFrom: {secretKeyRef: {name: canary, key: token}}}\n", 1)
	facts := f.Path("facts")
	f.droverIn(t, 0, fmt.Sprintf("apiVersion: fleet.drover.dev/v1\nkind: DevicePool\nmetadata: {name: facts}\n"+
		"spec: {all: true, namespaces: [default], allow: {hostPaths: [%s]}}\n", facts), "apply", "-f", "-")
	manifest += fmt.Sprintf("      volumes: [{name: facts, hostPath: {path: %s, type: DirectoryOrCreate}}]\n", facts)
	f.rollOut(t, "keeper", manifest)
	want := fmt.Sprintf("%d %x\n", len(env), sha256.Sum256([]byte(env)))
	f.until(t, 20*time.Second, "the container has seen the secret", func() error {
		got, err := os.ReadFile(filepath.Join(facts, "token"))
		if err == nil && string(got) != want {
			err = fmt.Errorf("it saw %q, want %q", got, want)
		}
		return err
	})
}

// plantCredentials has the hub make every sort of credential. What is secret of each is its last part, or the key.
func (f *fleet) plantCredentials(t *testing.T, c canaries) {
	t.Helper()
	for _, who := range []string{"device", "hub"} {
		token := strings.TrimSpace(f.drover(t, 0, "token", "create", "--for", who))
		c["join token for a "+who] = token[strings.LastIndex(token, ".")+1:]
	}
	f.droverIn(t, 0, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: canary}\n", "apply", "-f", "-")
	token := strings.TrimSpace(f.drover(t, 0, "auth", "token", "canary"))
	c["token of a service account"] = token[strings.LastIndex(token, ".")+1:]
	config := filepath.Join(t.TempDir(), "colleague")
	f.drover(t, 0, "auth", "add-user", "colleague", "--for", "1h", "--out", config)
	k, err := remote.LoadKubeconfig(config, "")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(k.Key), "\n")
	c["key of a kubeconfig"] = lines[2] // of PEM: the second line of the key
	raw, err := base64.StdEncoding.DecodeString(lines[2][:len(lines[2])/4*4])
	if err != nil {
		t.Fatal(err)
	}
	c["key of a kubeconfig as bytes"] = string(raw)
}

// plantInRefusals sends secrets in requests that are refused, each at the very place that is wrong.
func (f *fleet) plantInRefusals(t *testing.T, c canaries) {
	t.Helper()
	secrets := "/api/v1/namespaces/default/secrets"
	object := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"refused"},%s}`
	of := func(how, format string) string { return fmt.Sprintf(object, fmt.Sprintf(format, c.plant(how))) }
	transaction := `{"apiVersion":"fleet.drover.dev/v1","kind":"Transaction","items":[{"verb":"apply","object":%s}]}`
	for _, q := range []struct{ how, method, path, media, body string }{
		{"created with a value of another type", "POST", secrets, "application/json", of("value of another type, created", `"data":{"k":{"nested":"%s"}}`)},
		{"created with data that is no base64", "POST", secrets, "application/json", of("data that is no base64", `"data":{"k":"%s"}`)},
		{"created with an unknown field", "POST", secrets, "application/json", of("value of an unknown field", `"strungData":{"k":"%s"}`)},
		{"created with a word for a flag", "POST", secrets, "application/json", of("value of a flag", `"immutable":"%s"`)},
		{"applied with a list for a text", "PATCH", secrets + "/refused?fieldManager=x", "application/apply-patch+yaml", of("value of another type, applied", `"stringData":{"k":["%s"]}`)},
		{"patched with a number for data", "PATCH", secrets + "/canary", "application/merge-patch+json", fmt.Sprintf(`{"data":{"token":"%s"}}`, c.plant("data that is no base64, patched"))},
		{"patched by a test that fails", "PATCH", secrets + "/canary", "application/json-patch+json", fmt.Sprintf(`[{"op":"test","path":"/data/token","value":"%s"}]`, c.plant("value of a patch's test"))},
		{"transaction with a value of another type", "POST", "/apis/fleet.drover.dev/v1/transactions", "application/json", fmt.Sprintf(transaction, of("value of another type in a transaction", `"stringData":{"k":{"v":"%s"}}`))},
		{"transaction with data that is no base64", "POST", "/apis/fleet.drover.dev/v1/transactions", "application/json", fmt.Sprintf(transaction, of("data that is no base64 in a transaction", `"data":{"k":"%s"}`))},
		{"body that is cut off", "POST", secrets, "application/json", strings.TrimSuffix(of("value of a cut-off body", `"stringData":{"k":"%s"`), `"}`)},
		{"field selector", "GET", secrets + "?fieldSelector=" + url.QueryEscape("data.token="+c.plant("field selector")), "", ""},
		{"token in the query", "GET", secrets + "?access_token=" + c.plant("token in the query"), "", ""},
		{"review of a token", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json",
			fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":["%s"]}}`, c.plant("token of a review"))},
	} {
		f.refused(t, c, q.how, q.method, q.path, q.media, q.body, "")
	}
	f.refused(t, c, "bearer token", "GET", secrets, "", "", "Bearer "+c.plant("bearer token"))
	f.refused(t, c, "basic authorization", "GET", secrets, "", "", "Basic "+base64.StdEncoding.EncodeToString([]byte("admin:"+c.plant("password"))))
}

// refused sends a request as an administrator, or with the Authorization header that is given, and demands a refusal that repeats nothing.
func (f *fleet) refused(t *testing.T, c canaries, how, method, path, media, body, authorization string) {
	t.Helper()
	k, err := remote.LoadKubeconfig(f.Path("config"), "")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.CA)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if authorization == "" {
		pair, err := tls.X509KeyPair(k.Cert, k.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	r, err := http.NewRequestWithContext(within(t, time.Minute), method, "https://"+f.Members[0].API+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil || answer.StatusCode < 400 || answer.StatusCode > 499 {
		t.Errorf("%s: got %s %s (%v), want a refusal", how, answer.Status, text, err)
	}
	for _, secret := range c.within(text) {
		t.Errorf("%s: the refusal repeats the %s: %s", how, secret, text)
	}
}

// crash has a member and an agent print where all their goroutines are and end, and another two abort where core files are allowed; then all run again.
func (f *fleet) crash(t *testing.T) {
	t.Helper()
	for i, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT} {
		m, d := f.Members[i+1].Name, f.Devices[i+1]
		for _, name := range []string{m, d} {
			if err := errors.Join(f.Procs[name].Signal(sig), f.Procs[name].Gone(within(t, time.Minute))); err != nil {
				t.Fatal(err)
			}
			if log := f.Tail(name, 5000); !strings.Contains(log, "goroutine ") {
				t.Errorf("%s after %v: its log has no goroutines:\n%s", name, sig, f.Tail(name, 10))
			}
		}
		if err := errors.Join(f.StartMember(within(t, time.Minute), i+1), f.StartAgent(within(t, time.Minute), d), f.Ready(within(t, time.Minute), d)); err != nil {
			t.Fatal(err)
		}
	}
	cores, err := filepath.Glob("core*")
	if err != nil || len(cores) > 0 {
		t.Errorf("core files: got %v (%v), want none", cores, err)
	}
}

// unpacked are the files of a .tgz by name.
func unpacked(t *testing.T, name string) map[string][]byte {
	t.Helper()
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	gz, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(io.LimitReader(tr, 64<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if len(files["objects/secrets.json"]) == 0 {
		t.Errorf("the bundle has no objects/secrets.json among %d files", len(files))
	}
	return files
}

// search reads every regular file below a folder of the fleet: hub and device folders, logs, containerd's root and state. The programs were built before
// there was any secret.
func (f *fleet) search(t *testing.T, dir string, c canaries) (found []string, files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path == f.Bin {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // gone since its folder was listed, or nothing that holds bytes
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		for _, how := range c.within(b) {
			found = append(found, fmt.Sprintf("the %s stands in %s", how, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, files
}

// searchFinds shows that the search would find a secret: in clear, in hexadecimal, and in base64 wherever it begins.
func (f *fleet) searchFinds(t *testing.T) {
	t.Helper()
	dir := f.Path("hub", f.Members[0].Name)
	control := canaries{}
	secret := control.plant("control")
	written := map[string]string{"clear": "k=" + secret + "\n", "hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for i, before := range []string{"", "a", "ab"} {
		written[fmt.Sprint("base64-", i)] = base64.StdEncoding.EncodeToString([]byte(before + secret + "end"))
	}
	for name, text := range written {
		path := filepath.Join(dir, "control-"+name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := f.search(t, dir, control); len(got) != 1 || !strings.HasSuffix(got[0], path) {
			t.Errorf("search for a secret that stands in %s: got %v", path, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
