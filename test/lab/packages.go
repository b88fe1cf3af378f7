package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// tools names, for each command the lab runs, the Debian package that holds it.
var tools = map[string]string{
	"/usr/bin/containerd": "containerd",
	"/usr/bin/ctr":        "containerd",
	"/usr/sbin/runc":      "runc",
	"/usr/bin/ip":         "iproute2",
	"/usr/bin/gcc":        "gcc",

	"/usr/bin/qemu-aarch64-static": "qemu-user-static",
}

// InstallTools installs what is missing of the given files through apt; it says what it does on out.
func InstallTools(ctx context.Context, out io.Writer, files ...string) error {
	var missing []string
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			name, ok := tools[f]
			if !ok {
				return fmt.Errorf("%s is missing, and the lab knows no package that holds it", f)
			}
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages %v are missing: run this as root, or install them yourself", missing)
	}
	fmt.Fprintf(out, "installing %v\n", missing)
	if err := apt(ctx, out, "update", "-q"); err != nil {
		return err
	}
	return apt(ctx, out, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)...)
}

func apt(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	text, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintf(out, "%s\n", text)
		return fmt.Errorf("apt-get %s: %w", args[0], err)
	}
	return nil
}

// UnpackDebian takes one file out of a Debian package without installing it.
func UnpackDebian(ctx context.Context, pkg, file, to string) error {
	dir, err := os.MkdirTemp("", "deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	download := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, "apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", pkg)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if _, err := download(); err != nil {
		if err := apt(ctx, io.Discard, "update", "-q"); err != nil {
			return err
		}
		if out, err := download(); err != nil {
			return fmt.Errorf("download %s: %w: %s", pkg, err, out)
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("download %s: found %q: %w", pkg, debs, err)
	}
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", debs[0], dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", pkg, err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
