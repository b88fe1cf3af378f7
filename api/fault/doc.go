// Package fault names the classes of failure that every layer maps its own failures to, and their forms at the edges: HTTP
// status and Kubernetes' Status, CoAP response code, MQTT 5 reason code, and the exit code of the command line.
//
// A class survives every edge: [FromStatus] of [StatusOf] has the class it started with, so callers branch on the class
// and never on the transport. A class is itself an error: errors.Is(err, fault.NotFound) holds for any error of that class
// in the chain. What the package does not promise: that a class tells whether a write took effect. [Timeout] and
// [Unreachable] leave that open, and so does [Unavailable] unless the message says otherwise.
package fault
