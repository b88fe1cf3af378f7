// Command kubectl is Kubernetes' own, of the version that go.mod names, for the acceptance tests. It is a module of its own, so that
// Kubernetes is no dependency of Drover.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
