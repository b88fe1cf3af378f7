// Package httpgw carries the device protocol over HTTPS: authentication by client certificate, body caps, strict decoding,
// deadlines, and errors as Kubernetes' Status in JSON with Retry-After. It has no rules of its own; they are hub/gateway's and
// hub/enroll's. The same listener carries the calls between hub members that belong to the device protocol.
//
// It promises that a body above its cap is refused before it is read, that no read or write outlives its deadline (save a
// held poll, which the hub ends, and a log stream, which lives as long as whoever reads it), and that a client certificate of another
// organisation than drover:devices is no device.
package httpgw
