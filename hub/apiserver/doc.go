// Package apiserver is the operators' HTTPS API of a hub member: Kubernetes' API conventions over one client.Client, so that
// kubectl, client-go and Drover's own CLI work against any member.
//
// Every request passes one pipeline, readable in [Server.ServeHTTP]: size of the request, who it is (client
// certificate), whether it may, then the registry, which admits, validates, checks the precondition and proposes. The
// audit receipt of a write comes first and its outcome last, so that refusals and crashes are on record; neither holds a
// body.
//
// It promises: every read body is capped before it is read, every answer that is not a success is a Status with a reason,
// a watcher that does not read is cut off, and a write repeated with the same Drover-Request-Id is done at most once.
//
// It does not serve devices (hub/gateway does, beside it on the same listener) and keeps no state but counters of what is
// in flight.
package apiserver
