// Package conventions tries what Kubernetes' public API conventions say, point by point and on every kind, over HTTPS against the real
// API server and registry. Its test prints the table of points and kinds (go test -v). Admission is left out: who may write what is
// tested with it, and here every kind must be writable to be tried.
package conventions
