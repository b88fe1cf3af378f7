package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/drover-fleet/drover/client/backup"
)

func hubSnapshotCommand() *cli.Command {
	return &cli.Command{
		Name: "snapshot", Usage: "save the hub's state to a file (drover-hub snapshot restore makes a hub of it)",
		Subcommands: []*cli.Command{
			{Name: "save", Usage: "save what the hub holds now to a new file; secrets in it stay sealed", ArgsUsage: "FILE", Action: snapshotSave},
			{
				Name: "inspect", Usage: "check a saved file and say what it is of", ArgsUsage: "FILE",
				Flags: []cli.Flag{outputFlag("json")}, Action: snapshotInspect,
			},
			offlineCommand("restore", "drover-hub snapshot restore"),
		},
	}
}

// offlineCommand stands where people look for what has to be done on the machine of a member that does not run.
func offlineCommand(name, instead string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: "is done on the machine of the member: " + instead,
		Flags: []cli.Flag{dryRunFlag()},
		Action: func(*cli.Context) error {
			return usagef("this is done on the machine of a member that does not run: %s --help (docs/operate-the-hub.md)", instead)
		},
	}
}

func snapshotSave(c *cli.Context) error {
	file, err := oneName(c, "file")
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already and is not replaced: name another file", file)
	}
	hub, err := connect(c)
	if err != nil {
		return err
	}
	in, err := hub.remote.HubSnapshot(c.Context)
	if err != nil {
		return err
	}
	info, err := backup.Save(file, in)
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	if s, err := hub.remote.HubStatus(c.Context); err == nil && s.Leader == "" {
		fmt.Fprintf(c.App.ErrWriter, "warning: no leader is known: this is what member %s holds, and it may lack what was written last\n", plain(info.Header.Member))
	}
	fmt.Fprintln(c.App.ErrWriter, "to restore it the sealing key is needed too: drover-hub key export saves it, anew after each change of the key")
	return sayBackup(c.App.Writer, file, info)
}

func snapshotInspect(c *cli.Context) error {
	file, err := oneName(c, "file")
	if err != nil {
		return err
	}
	output, err := outputOf(c, "json")
	if err != nil {
		return err
	}
	info, err := backup.Check(file)
	if err != nil {
		return err
	}
	if output != "json" {
		return sayBackup(c.App.Writer, file, info)
	}
	type header struct {
		backup.Header
		Revision string `json:"revision"` // as text, as everywhere: many programs keep 53 bits of a number
	}
	b, err := json.Marshal(struct {
		Header header `json:"header"`
		backup.Info
		SHA256 string `json:"sha256"`
	}{header{info.Header, strconv.FormatUint(info.Header.Revision, 10)}, info, hex.EncodeToString(info.SHA256[:])})
	if err != nil {
		return err
	}
	return writeIndented(c.App.Writer, b)
}

func sayBackup(w io.Writer, file string, i backup.Info) error {
	h := i.Header
	_, err := fmt.Fprintf(w, "%s: whole\n  of member %s (Drover %s) at %s\n  cluster %s\n  epoch %d (%s), revision %d, entry %d of the log\n  %d bytes, sha256 %x\n",
		file, plain(h.Member), plain(h.Version), h.Time.UTC().Format(time.RFC3339), plain(h.ClusterID), h.Epoch, plain(h.EpochID), h.Revision, h.Index, i.Bytes, i.SHA256)
	for _, m := range h.Members {
		if err == nil {
			_, err = fmt.Fprintf(w, "  member %s, API %s, peers %s\n", plain(m.Name), plain(m.API), plain(m.Peer))
		}
	}
	return err
}
