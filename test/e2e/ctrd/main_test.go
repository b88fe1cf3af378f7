package ctrd

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	machine "github.com/drover-fleet/drover/test/lab"
)

// lab is what all tests share: a daemon, a registry and two versions of the app's image.
var lab struct {
	dir    string
	daemon *machine.Containerd
	app    string // static binary
	host   string // of the registry
	server *httptest.Server
	images [3]v1.Image
	refs   [3]string // repository@digest; the third differs in platform
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/ctrd:", err)
		code = 1
	}
	os.Exit(code)
}

func setUp(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "dctrd")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lab.dir, lab.app = dir, filepath.Join(dir, "app")
	build := exec.Command("go", "build", "-trimpath", "-o", lab.app, "./app")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build app: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if lab.daemon, err = machine.StartContainerd(ctx, filepath.Join(dir, "d")); err != nil {
		return 1, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if e := lab.daemon.Remove(ctx); e != nil && err == nil {
			code, err = 1, e
		}
	}()
	lab.server = httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer lab.server.Close()
	lab.host = strings.TrimPrefix(lab.server.URL, "http://")
	for i := range lab.images {
		if err := publish(i); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// publish makes image i, which holds the app, and pushes it.
func publish(i int) error {
	bin, err := os.ReadFile(lab.app)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		mode int64
		data []byte
	}{{"app", 0o755, bin}, {"version", 0o644, []byte(fmt.Sprint(i))}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return err
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", runtime.GOARCH
	if i == 2 {
		cf.Architecture = "s390x"
	}
	cf.Config.Entrypoint, cf.Config.Cmd = []string{"/app"}, []string{"run"}
	cf.Config.Env = []string{"PATH=/", "FROM_IMAGE=yes"}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		return err
	}
	dg, err := img.Digest()
	if err != nil {
		return err
	}
	lab.images[i], lab.refs[i] = img, lab.host+"/app@"+dg.String()
	tag, err := name.NewTag(fmt.Sprintf("%s/app:v%d", lab.host, i))
	if err != nil {
		return err
	}
	return remote.Write(tag, img)
}
