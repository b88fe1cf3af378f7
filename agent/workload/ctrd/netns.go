package ctrd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// networkNamespace finds a path by which runc, which runs in the daemon's mount and network namespaces, joins the agent's network
// namespace: "" when the daemon is in it already; else a name under /run/netns, which outlives the agent; else the agent's own
// /proc entry, which only has to live as long as the start of a container.
func (d *Driver) networkNamespace() (string, error) {
	own, err := inode("/proc/self/ns/net")
	if err != nil {
		return "", fmt.Errorf("own network namespace: %w", err)
	}
	pid, err := d.daemonPid()
	if err == nil {
		if its, err := inode(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && its == own {
			return "", nil
		}
	}
	for _, dir := range []string{"/run/netns", "/var/run/netns"} {
		names, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, n := range names {
			p := filepath.Join(dir, n.Name())
			if its, err := inode(p); err == nil && its == own {
				return p, nil
			}
		}
	}
	return fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), nil
}

type nsInode struct{ dev, ino uint64 }

func inode(path string) (nsInode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nsInode{}, fmt.Errorf("%s: %w", path, err)
	}
	return nsInode{uint64(st.Dev), st.Ino}, nil //nolint:unconvert // Dev is 32 bits wide on some platforms
}

// daemonPid is the process that listens on the socket.
func (d *Driver) daemonPid() (int, error) {
	conn, err := net.Dial("unix", d.cfg.Socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var serr error
	if err := raw.Control(func(fd uintptr) { cred, serr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if serr != nil {
		return 0, serr
	}
	return int(cred.Pid), nil
}
