package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// BuildProgram compiles a package of this module into a static binary.
func BuildProgram(ctx context.Context, moduleDir, pkg, arch, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", pkg, arch, err, text)
	}
	return nil
}

// ProgramImage makes an OCI image from scratch that holds one static program, for this machine's architecture.
// The same program gives the same digest; labels make different ones.
func ProgramImage(program string, labels map[string]string) (v1.Image, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	entry := "/" + filepath.Base(program)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: entry[1:], Mode: 0o755, Size: int64(len(binary)), Typeflag: tar.TypeReg}); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	if _, err := w.Write(binary); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), l)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	return mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux",
		Config: v1.Config{Entrypoint: []string{entry}, Env: []string{"PATH=/"}, Labels: labels},
		RootFS: must(img.ConfigFile()).RootFS,
	})
}

// must unwraps what the library builds in memory and cannot fail for.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Registry is a loopback OCI registry in this process that keeps images in memory.
type Registry struct {
	Addr   string
	server *http.Server
}

// StartRegistry listens on addr.
func StartRegistry(addr string) (*Registry, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start registry: %w", err)
	}
	r := &Registry{Addr: l.Addr().String(), server: &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}}
	go func() {
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(os.Stderr, "registry on %s ended: %v\n", addr, err)
		}
	}()
	return r, nil
}

// Close ends the registry; what it held is gone.
func (r *Registry) Close() { _ = r.server.Close() } // its listener is gone either way

// Push stores an image under repository:tag and returns its digest.
func Push(ctx context.Context, addr, repoTag string, img v1.Image) (string, error) {
	ref, err := name.ParseReference(addr+"/"+repoTag, name.Insecure)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", repoTag, err)
	}
	if err := remote.Write(ref, img, remote.WithContext(ctx)); err != nil {
		return "", fmt.Errorf("push %s: %w", repoTag, err)
	}
	d, err := img.Digest()
	return d.String(), err
}
