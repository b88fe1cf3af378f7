// Command setup installs the Debian packages that hold the given files, where they are missing.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-fleet/drover/test/lab"
)

func main() {
	if err := lab.InstallTools(context.Background(), os.Stderr, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}
