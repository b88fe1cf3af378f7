// Package e2e holds the tests on real processes: three hub members, three agents in network namespaces of their own, a
// real containerd, a loopback registry, and the CLI and kubectl as people use them. They need root.
//
// One fleet serves all tests of the package, in turn; a test that breaks a part of it mends it again. Each test uses
// names of its own.
package e2e
