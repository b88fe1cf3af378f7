package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// whoami asks a member whose token it is.
func (f *fleet) whoami(t *testing.T, token string) (code int, name string, extra map[string][]string) {
	t.Helper()
	ca, err := os.ReadFile(f.Path("hub", f.Members[0].Name, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	defer tr.CloseIdleConnections()
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	rq, err := http.NewRequestWithContext(within(t, 20*time.Second), http.MethodPost,
		"https://"+f.Members[1].API+"/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Authorization", "Bearer "+token)
	rq.Header.Set("Content-Type", "application/json")
	rs, err := (&http.Client{Transport: tr}).Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Body.Close()
	var r struct {
		Status struct {
			UserInfo struct {
				Username string              `json:"username"`
				Extra    map[string][]string `json:"extra"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	b, err := io.ReadAll(rs.Body)
	if err == nil && rs.StatusCode < 300 {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rs.StatusCode, r.Status.UserInfo.Username, r.Status.UserInfo.Extra
}

// A workload reads its token from a file and is known by it to the hub; the token stands in no file and no log, outlives the agent and ends
// with the copy.
func TestAWorkloadUsesItsProjectedTokenUntilItIsDeleted(t *testing.T) {
	f := shared
	manifest := strings.Replace(f.workload("robot", "1.0", "x"), "        env:\n", "        volumeMounts: [{name: hub, mountPath: /var/run/hub}]\n        env:\n", 1) +
		"      serviceAccountName: robot\n      volumes: [{name: hub, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600}}]}}]\n"
	f.droverIn(t, 0, manifest, "apply", "-f", "-")
	defer f.remove(t, "robot")
	device := f.Devices[0]
	f.until(t, time.Minute, "the missing account is named", func() error {
		if out := f.drover(t, 0, "get", "device", device, "-o", "json"); !strings.Contains(out, `serviceaccounts \"robot\" not found`) {
			return fmt.Errorf("the device says nothing of it")
		}
		return nil
	})
	f.droverIn(t, 0, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n", "apply", "-f", "-")
	defer f.drover(t, 0, "delete", "serviceaccount", "robot")
	f.drover(t, 0, "rollout", "status", "robot", "--timeout", "120s")

	task := f.containers(t, "robot")[device]
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/var/run/hub/token", task.PID))
	if err != nil {
		t.Fatal(err)
	}
	token := string(b)
	code, name, extra := f.whoami(t, token)
	if bound := extra["fleet.drover.dev/assignment-name"]; code != http.StatusCreated || name != "system:serviceaccount:default:robot" || len(bound) != 1 || bound[0] != "robot."+device {
		t.Fatalf("the hub answers %d, %q, bound to %v; want it to know the account and the copy", code, name, bound)
	}
	if out := f.drover(t, 0, "audit", "--actor", "device:"+device, "-o", "json"); !strings.Contains(strings.Join(strings.Fields(out), ""), `"verb":"token"`) {
		t.Error("no token of the device is on record")
	}
	for _, file := range f.filesWith(t, token) {
		t.Errorf("the token stands in %s", file)
	}

	if err := f.Procs[device].Kill(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := f.StartAgent(within(t, 20*time.Second), device); err != nil {
		t.Fatal(err)
	}
	if err := f.Ready(within(t, time.Minute), device); err != nil {
		t.Fatal(err)
	}
	if again := f.containers(t, "robot")[device]; again.PID != task.PID {
		t.Errorf("process %d after the agent's restart, want %d", again.PID, task.PID)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/var/run/hub/token", task.PID)); err != nil || string(b) != token {
		t.Errorf("the file after the agent's restart: changed %v, %v; want it as it was", string(b) != token, err)
	}

	f.remove(t, "robot")
	if code, _, _ := f.whoami(t, token); code != http.StatusUnauthorized {
		t.Errorf("the token of a deleted copy: the hub answers %d, want 401", code)
	}
	f.until(t, 20*time.Second, "the memory of deleted copies is given back", func() error {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err == nil && bytes.Contains(mounts, []byte(f.Path("run")+"/")) {
			err = errors.New("it is still mounted")
		}
		return err
	})
}

// filesWith are the regular files of the fleet that hold a text, save those in devices' memory.
func (f *fleet) filesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	searched := 0
	err := filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
		if path == f.Path("run") || path == f.Bin {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // gone since its folder was listed, or nothing that holds bytes
		}
		b, err := os.ReadFile(path)
		if err == nil {
			searched++
		}
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil || searched < 50 {
		t.Errorf("%d files searched, %v: the search itself is broken", searched, err)
	}
	return found
}
