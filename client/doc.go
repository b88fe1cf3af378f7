// Package client is the shared view of the system: one small interface through which controllers, the scheduler, the
// gateways and the CLI read, watch and write objects.
//
// It has two implementations, [client/remote] over HTTPS and hub/registry in process; one suite runs on both. Errors are
// of the classes of [api/fault] in both, so that callers branch on the class and never on the transport.
package client
