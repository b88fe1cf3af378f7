package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk shows a directory at another place, and can be made slow, full or broken there. What was written before stays.
type disk struct {
	mount  string
	server *fuse.Server

	mu       sync.Mutex // guards below
	slow     time.Duration
	broken   bool // syncs fail
	full     bool // what would grow a file fails
	incoming int  // snapshots that were begun to be received
}

// mountDisk shows the directory at mount. Both are made when they are not there.
func mountDisk(mount, backing string) (*disk, error) {
	for _, d := range []string{mount, backing} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	d := &disk{mount: mount}
	root := &fs.LoopbackRoot{Path: backing}
	top := &node{LoopbackNode: &fs.LoopbackNode{RootData: root}, disk: d}
	root.RootNode = top
	server, err := fs.Mount(mount, top, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "drover-chaos", Name: "drover-chaos", MaxWrite: 1 << 20, DisableXAttrs: true},
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", mount, err)
	}
	d.server = server
	return d, nil
}

// close takes the directory out of sight; who still uses it fails.
func (d *disk) close() error { return syscall.Unmount(d.mount, syscall.MNT_DETACH) }

func (d *disk) set(slow time.Duration, broken, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow, d.broken, d.full = slow, broken, full
}

func (d *disk) heal() { d.set(0, false, false) }

func (d *disk) snapshots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.incoming
}

func (d *disk) sync() syscall.Errno {
	d.mu.Lock()
	slow, broken := d.slow, d.broken
	d.mu.Unlock()
	if slow > 0 {
		<-time.After(slow)
	}
	if broken {
		return syscall.EIO
	}
	return 0
}

func (d *disk) noRoom() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full
}

// incomingPrefix begins the names of snapshots that a member receives.
const incomingPrefix = "incoming"

func (d *disk) made(name string) {
	if strings.HasPrefix(filepath.Base(name), incomingPrefix) {
		d.mu.Lock()
		d.incoming++
		d.mu.Unlock()
	}
}

type node struct {
	*fs.LoopbackNode
	disk *disk
}

// WrapChild makes what lies in the directory a node of the disk too.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	if child, ok := ops.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: child, disk: n.disk}
	}
	return ops
}

// Open is the loopback's, with the disk's faults.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(f), fuseFlags, errno
}

// Create is the loopback's, with the disk's faults.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if n.disk.noRoom() {
		return nil, nil, 0, syscall.ENOSPC
	}
	n.disk.made(name)
	inode, f, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrap(f), fuseFlags, errno
}

func (n *node) wrap(f fs.FileHandle) fs.FileHandle {
	if lf, ok := f.(*fs.LoopbackFile); ok {
		return &handle{f: lf, disk: n.disk}
	}
	return f
}

// handle is an open file. It hides what the loopback's file can do besides, so that nothing passes by.
type handle struct {
	f    *fs.LoopbackFile
	disk *disk
}

var (
	_ fs.FileReader    = (*handle)(nil)
	_ fs.FileWriter    = (*handle)(nil)
	_ fs.FileFsyncer   = (*handle)(nil)
	_ fs.FileFlusher   = (*handle)(nil)
	_ fs.FileReleaser  = (*handle)(nil)
	_ fs.FileGetattrer = (*handle)(nil)
	_ fs.FileSetattrer = (*handle)(nil)
	_ fs.FileAllocater = (*handle)(nil)
)

// Read implements fs.FileReader.
func (h *handle) Read(ctx context.Context, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	return h.f.Read(ctx, b, at)
}

func (h *handle) size(ctx context.Context) uint64 {
	var a fuse.AttrOut
	if h.f.Getattr(ctx, &a) != 0 {
		return 0
	}
	return a.Size
}

// Write implements fs.FileWriter: on a full disk what lies within the file can still be written.
func (h *handle) Write(ctx context.Context, b []byte, at int64) (uint32, syscall.Errno) {
	if h.disk.noRoom() && uint64(at)+uint64(len(b)) > h.size(ctx) { //nolint:gosec // offsets are not negative
		return 0, syscall.ENOSPC
	}
	return h.f.Write(ctx, b, at)
}

// Fsync implements fs.FileFsyncer.
func (h *handle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if errno := h.disk.sync(); errno != 0 {
		return errno
	}
	return h.f.Fsync(ctx, flags)
}

// Flush implements fs.FileFlusher.
func (h *handle) Flush(ctx context.Context) syscall.Errno { return h.f.Flush(ctx) }

// Release implements fs.FileReleaser.
func (h *handle) Release(ctx context.Context) syscall.Errno { return h.f.Release(ctx) }

// Getattr implements fs.FileGetattrer.
func (h *handle) Getattr(ctx context.Context, out *fuse.AttrOut) syscall.Errno {
	return h.f.Getattr(ctx, out)
}

// Setattr implements fs.FileSetattrer.
func (h *handle) Setattr(ctx context.Context, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok && h.disk.noRoom() && size > h.size(ctx) {
		return syscall.ENOSPC
	}
	return h.f.Setattr(ctx, in, out)
}

// Allocate implements fs.FileAllocater.
func (h *handle) Allocate(ctx context.Context, at, size uint64, mode uint32) syscall.Errno {
	if h.disk.noRoom() {
		return syscall.ENOSPC
	}
	return h.f.Allocate(ctx, at, size, mode)
}
