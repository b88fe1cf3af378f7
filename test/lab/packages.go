package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// tools names, for each command the lab runs, the Debian package that holds it.
var tools = map[string]string{
	"/usr/bin/containerd": "containerd",
	"/usr/bin/ctr":        "containerd",
	"/usr/sbin/runc":      "runc",
	"/usr/bin/ip":         "iproute2",
	"/usr/bin/gcc":        "gcc",
	"/usr/bin/kubectl":    "kubernetes-client",

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
