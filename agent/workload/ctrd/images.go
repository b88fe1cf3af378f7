package ctrd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drover-fleet/drover/agent/workload"
)

// Bounds of a pull.
const (
	dialTimeout  = 15 * time.Second
	headTimeout  = 30 * time.Second
	stallTimeout = time.Minute // a body that gives no byte for this long is given up; the next try goes on where it ended
	maxManifest  = 4 << 20
)

// HasImage implements workload.Images.
func (d *Driver) HasImage(ctx context.Context, ref string) (bool, error) {
	img, err := d.client.GetImage(ctx, ref)
	if errdefs.IsNotFound(err) {
		img, err = d.adoptImage(ctx, ref)
	}
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, wrap("image "+ref, err)
	}
	if err := d.fits(ctx, img); err != nil {
		return false, err
	}
	// What is unpacked runs, even when a layer's blob is gone.
	if ok, err := img.IsUnpacked(ctx, d.cfg.Snapshotter); err == nil && ok {
		return true, nil
	} else if err != nil && errdefs.IsUnavailable(err) {
		return false, wrap("image "+ref, err)
	}
	available, _, _, missing, err := images.Check(ctx, img.ContentStore(), img.Target(), d.matcher)
	if err != nil {
		return false, wrap("image "+ref, err)
	}
	if !available || len(missing) > 0 {
		return false, nil
	}
	if err := img.Unpack(ctx, d.cfg.Snapshotter); err != nil {
		return false, wrap("unpack "+ref, err)
	}
	return true, nil
}

// adoptImage finds what was imported under another name, or is only in the content store, by its digest, and gives it the
// name by which containers refer to it.
func (d *Driver) adoptImage(ctx context.Context, ref string) (containerd.Image, error) {
	dg, err := digestOf(ref)
	if err != nil {
		return nil, err
	}
	found, err := d.client.ImageService().List(ctx, "target.digest=="+dg.String())
	if err != nil {
		return nil, err
	}
	var target ocispec.Descriptor
	if len(found) > 0 {
		target = found[0].Target
	} else if target, err = d.describe(ctx, dg); err != nil {
		return nil, err
	}
	rec, err := d.client.ImageService().Create(ctx, images.Image{Name: ref, Target: target})
	if errdefs.IsAlreadyExists(err) {
		return d.client.GetImage(ctx, ref)
	}
	if err != nil {
		return nil, err
	}
	return containerd.NewImageWithPlatform(d.client, rec, d.matcher), nil
}

func digestOf(ref string) (digest.Digest, error) {
	_, after, ok := strings.Cut(ref, "@")
	dg := digest.Digest(after)
	if !ok || dg.Validate() != nil {
		return "", fmt.Errorf("image %q does not name a digest", ref)
	}
	return dg, nil
}

// describe makes a descriptor for a manifest or index in the content store.
func (d *Driver) describe(ctx context.Context, dg digest.Digest) (ocispec.Descriptor, error) {
	info, err := d.client.ContentStore().Info(ctx, dg)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if info.Size > maxManifest {
		return ocispec.Descriptor{}, fmt.Errorf("%s has %d bytes, which no manifest has: %w", dg, info.Size, errdefs.ErrNotFound)
	}
	desc := ocispec.Descriptor{Digest: dg, Size: info.Size}
	b, err := content.ReadBlob(ctx, d.client.ContentStore(), desc)
	if err != nil {
		return desc, err
	}
	var m struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
		Layers    []json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return desc, fmt.Errorf("%s is no manifest: %w", dg, errdefs.ErrNotFound)
	}
	switch {
	case m.MediaType != "":
		desc.MediaType = m.MediaType
	case m.Manifests != nil:
		desc.MediaType = ocispec.MediaTypeImageIndex
	case m.Layers != nil:
		desc.MediaType = ocispec.MediaTypeImageManifest
	default:
		return desc, fmt.Errorf("%s is no manifest: %w", dg, errdefs.ErrNotFound)
	}
	return desc, nil
}

// Pull implements workload.Images. Blobs that are here are not fetched again, and one that was cut goes on where it ended.
func (d *Driver) Pull(ctx context.Context, ref string) error {
	if _, err := digestOf(ref); err != nil {
		return err
	}
	img, err := d.client.Pull(ctx, ref,
		containerd.WithPlatformMatcher(d.matcher),
		containerd.WithPullUnpack,
		containerd.WithPullSnapshotter(d.cfg.Snapshotter),
		containerd.WithMaxConcurrentDownloads(2),
		containerd.WithResolver(d.resolver()),
	)
	if err == nil {
		return d.fits(ctx, img)
	}
	// The client has no error value of its own for this.
	if strings.Contains(err.Error(), "no match for platform") {
		return fmt.Errorf("pull %s: %w: %w", ref, workload.ErrNoPlatform, err)
	}
	if _, verr := d.client.Version(ctx); errdefs.IsUnavailable(verr) {
		return fmt.Errorf("pull %s: %w: %w", ref, workload.ErrUnavailable, err)
	}
	return fmt.Errorf("pull %s: %w", ref, err)
}

// fits tells whether the image is built for this board. containerd checks that only for images behind an index. An image whose
// configuration is not here, or names no platform, is not refused.
func (d *Driver) fits(ctx context.Context, img containerd.Image) error {
	s, err := img.Spec(ctx)
	if err != nil || s.Architecture == "" || s.OS == "" || d.matcher.Match(platforms.Normalize(s.Platform)) {
		return nil //nolint:nilerr // what is missing is found and fetched later
	}
	return fmt.Errorf("%s: %w: it is built for %s", img.Name(), workload.ErrNoPlatform, platforms.Format(s.Platform))
}

func (d *Driver) resolver() remotes.Resolver {
	client := &http.Client{Transport: stalling{&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headTimeout,
		IdleConnTimeout:       10 * time.Second,
		MaxIdleConns:          4,
	}}}
	return docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
		docker.WithClient(client),
		docker.WithAuthorizer(docker.NewDockerAuthorizer(docker.WithAuthClient(client))),
		docker.WithPlainHTTP(d.plainHTTP),
	)})
}

// plainHTTP: loopback, and what the operator listed.
func (d *Driver) plainHTTP(host string) (bool, error) {
	if ok, err := docker.MatchLocalhost(host); ok || err != nil {
		return ok, err
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return slices.Contains(d.cfg.PlainHTTP, host) || slices.Contains(d.cfg.PlainHTTP, name), nil
}

// stalling ends a response whose body gives nothing for stallTimeout.
type stalling struct{ next http.RoundTripper }

func (s stalling) RoundTrip(rq *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(rq.Context())
	rs, err := s.next.RoundTrip(rq.WithContext(ctx))
	if err != nil {
		cancel(err)
		return nil, err
	}
	rs.Body = &stallBody{ReadCloser: rs.Body, cancel: cancel}
	return rs, nil
}

type stallBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *stallBody) Read(p []byte) (int, error) {
	t := time.AfterFunc(stallTimeout, func() { b.cancel(fmt.Errorf("registry sent nothing for %s", stallTimeout)) })
	defer t.Stop()
	return b.ReadCloser.Read(p)
}

func (b *stallBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
