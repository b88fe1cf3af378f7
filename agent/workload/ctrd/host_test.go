package ctrd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-fleet/drover/api/grant"
	"github.com/drover-fleet/drover/api/wire"
)

// TestALinkBelowAnAllowedPathLeadsNowhereElse: a container that may write below one allowed path puts a link in the place of another.
func TestALinkBelowAnAllowedPathLeadsNowhereElse(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	within := filepath.Join(base, "within")
	if err := os.Symlink(outside, within); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := grant.Grant{Pool: "lab", HostPaths: []string{within, base}}
	for _, v := range []wire.Volume{
		{HostPath: within}, {HostPath: within, HostType: "Directory"}, {HostPath: filepath.Join(within, "secret"), HostType: "File"},
		{HostPath: filepath.Join(within, "made")}, {HostPath: filepath.Join(within, "made"), HostType: "FileOrCreate"},
	} {
		if st, err := hostPath(v, g); err == nil {
			t.Errorf("%s (%s): got %s, want a refusal: the link leads out of %s", v.HostPath, v.HostType, st.Name(), base)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "made")); err == nil {
		t.Error("got a file made outside, want none")
	}
	operators := grant.Grant{Pool: "lab", HostPaths: []string{within}}
	if _, err := hostPath(wire.Volume{HostPath: within, HostType: "Directory"}, operators); err != nil {
		t.Errorf("a link that the pool names itself: got %v, want what it leads to", err)
	}
}
