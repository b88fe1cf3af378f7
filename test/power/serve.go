package power

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Boot says how a file system is served from one power-on to the next cut.
type Boot struct {
	Mount string // an empty directory
	Image string // a directory of plain files: what is on the disk, before and after
	Cut   int    // after so many changes and syncs
	Seed  uint64 // chooses what survives
}

// Serve mounts the file system, says "ready" on out, and serves until in ends. Then it unmounts it and leaves in Image what a
// cut at that moment leaves.
func (b Boot) Serve(in io.Reader, out io.Writer) error {
	image, err := readImage(b.Image)
	if err != nil {
		return err
	}
	root := &dirNode{disk: newDisk(image, b.Cut)}
	_, err = fs.Mount(b.Mount, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "drover-power", Name: "drover-power", MaxWrite: 1 << 20, DisableXAttrs: true},
		OnAdd:        root.fill,
	})
	if err != nil {
		return fmt.Errorf("mount %s: %w", b.Mount, err)
	}
	_, err = fmt.Fprintln(out, "ready")
	if err == nil {
		_, err = io.Copy(io.Discard, bufio.NewReader(in))
	}
	// Not waiting for the last user of the mount: somebody else's mount namespace may hold a copy of it. The end of this process
	// ends them all.
	err = errors.Join(err, syscall.Unmount(b.Mount, syscall.MNT_DETACH))
	rng := rand.New(rand.NewPCG(b.Seed, 1))
	return errors.Join(err, writeImage(b.Image, root.disk.survivors(rng)))
}

func readImage(dir string) (Image, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := Image{}
	for _, f := range files {
		if out[f.Name()], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func writeImage(dir string, image Image) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, ok := image[f.Name()]; !ok {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	for name, b := range image {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return err
}

// dirNode is the one directory.
type dirNode struct {
	fs.Inode
	disk *disk
}

type fileNode struct {
	fs.Inode
	disk *disk
	file *file
}

var (
	_ fs.NodeCreater   = (*dirNode)(nil)
	_ fs.NodeUnlinker  = (*dirNode)(nil)
	_ fs.NodeRenamer   = (*dirNode)(nil)
	_ fs.NodeFsyncer   = (*dirNode)(nil)
	_ fs.NodeOpener    = (*fileNode)(nil)
	_ fs.NodeReader    = (*fileNode)(nil)
	_ fs.NodeWriter    = (*fileNode)(nil)
	_ fs.NodeFsyncer   = (*fileNode)(nil)
	_ fs.NodeFlusher   = (*fileNode)(nil)
	_ fs.NodeGetattrer = (*fileNode)(nil)
	_ fs.NodeSetattrer = (*fileNode)(nil)
)

func (d *dirNode) fill(ctx context.Context) {
	for name, f := range d.disk.names {
		d.AddChild(name, d.node(ctx, f), false)
	}
}

func (d *dirNode) node(ctx context.Context, f *file) *fs.Inode {
	return d.NewPersistentInode(ctx, &fileNode{disk: d.disk, file: f}, fs.StableAttr{Mode: syscall.S_IFREG})
}

func (d *dirNode) Create(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f := &file{}
	if errno := d.disk.link(entry{name: name, file: f}); errno != 0 {
		return nil, nil, 0, errno
	}
	return d.node(ctx, f), nil, 0, 0
}

func (d *dirNode) Unlink(_ context.Context, name string) syscall.Errno {
	return d.disk.link(entry{name: name})
}

func (d *dirNode) Rename(_ context.Context, name string, _ fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	child, ok := d.GetChild(name).Operations().(*fileNode)
	if !ok || flags != 0 {
		return syscall.ENOTSUP
	}
	return d.disk.link(entry{name: newName, file: child.file, gone: name})
}

func (d *dirNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return d.disk.syncDir()
}

func (n *fileNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (n *fileNode) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

func (n *fileNode) Read(_ context.Context, _ fs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultData(b[:n.disk.read(n.file, b, at)]), 0
}

func (n *fileNode) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	if errno := n.disk.change(n.file, change{at: at, data: slices.Clone(b)}); errno != 0 {
		return 0, errno
	}
	return uint32(len(b)), 0 //nolint:gosec // at most MaxWrite
}

func (n *fileNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.disk.sync(n.file)
}

func (n *fileNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = syscall.S_IFREG|0o600, n.disk.size(n.file)
	return 0
}

func (n *fileNode) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := n.disk.change(n.file, change{at: int64(size)}); errno != 0 { //nolint:gosec // a file's size
			return errno
		}
	}
	return n.Getattr(ctx, h, out)
}
