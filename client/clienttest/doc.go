// Package clienttest is the suite of behaviours that every [client.Client] must have. hub/registry runs it in process and
// client/remote over HTTPS, so that callers cannot tell which one they hold.
//
// It promises to use only what people may do, save where Env.Hub is used. It leaves nothing running; each test has an Env of its own.
package clienttest
