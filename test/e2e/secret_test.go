package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A planted secret reaches the container that needs it and stands in clear in no log and no file of hub or device.
func TestSecretsStandNowhereInClear(t *testing.T) {
	f := shared
	planted := "canary-" + rand.Text()
	f.droverIn(t, 0, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: canary}\nstringData: {token: %s}\n", planted), "apply", "-f", "-")
	manifest := strings.Replace(f.workload("keeper", "1.0", "x"), "        env:\n",
		"        args: [env, TOKEN, /facts/token]\n        volumeMounts: [{name: facts, mountPath: /facts}]\n        env:\n        - {name: TOKEN, valueFrom: {secretKeyRef: {name: canary, key: token}}}\n", 1)
	facts := f.Path("facts")
	f.droverIn(t, 0, fmt.Sprintf("apiVersion: fleet.drover.dev/v1\nkind: DevicePool\nmetadata: {name: facts}\n"+
		"spec: {all: true, namespaces: [default], allow: {hostPaths: [%s]}}\n", facts), "apply", "-f", "-")
	defer f.drover(t, 0, "delete", "devicepool", "facts")
	manifest += fmt.Sprintf("      volumes: [{name: facts, hostPath: {path: %s, type: DirectoryOrCreate}}]\n", facts)
	f.rollOut(t, "keeper", manifest)
	defer f.remove(t, "keeper")

	want := fmt.Sprintf("%d %x\n", len(planted), sha256.Sum256([]byte(planted)))
	f.until(t, 20*time.Second, "the container has seen the secret", func() error {
		got, err := os.ReadFile(filepath.Join(facts, "token"))
		if err == nil && string(got) != want {
			err = fmt.Errorf("it saw %q, want %q", got, want)
		}
		return err
	})

	if out := f.drover(t, 0, "describe", "secret", "canary"); strings.Contains(out, planted) || strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(planted))) {
		t.Errorf("describe prints the secret:\n%s", out)
	}
	if out := f.drover(t, 0, "why", "secret/canary"); strings.Contains(out, planted) {
		t.Errorf("why prints the secret:\n%s", out)
	}
	found := f.search(t, planted)
	for _, file := range found {
		t.Errorf("the secret stands in %s", file)
	}
}

// search reads every regular file of the fleet: hub and device folders, logs, containerd's root and state.
func (f *fleet) search(t *testing.T, planted string) []string {
	t.Helper()
	needles := [][]byte{[]byte(planted), []byte(base64.StdEncoding.EncodeToString([]byte(planted))), []byte(base64.RawURLEncoding.EncodeToString([]byte(planted)))}
	var found []string
	files := 0
	err := filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // gone since its folder was listed, or nothing that holds bytes
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		for _, n := range needles {
			if bytes.Contains(b, n) {
				found = append(found, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d files were searched: the search itself is broken", files)
	}
	return found
}
