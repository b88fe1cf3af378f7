// Package links runs one script over a real transport pair: agent/link against hub/gateway with mutual TLS on loopback, over
// a store of its own. Every rule of the device protocol that needs both sides is shown here: order, absence, other clusters, members
// that are behind, takeovers, half-open connections, de-duplication, bodies on demand, sealed secrets, streams and enrollment.
//
// It does not show what needs consensus or containers; test/cluster and test/e2e do.
package links
