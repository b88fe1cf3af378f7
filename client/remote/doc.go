// Package remote is client.Client over HTTPS: what the CLI and other tools outside the hub use.
//
// It reads a kubeconfig file, knows all members of the hub, and goes to the next when one does not answer. It promises that
// a request which may have reached a member is sent again only where that is safe: reads always, writes because they carry a
// request id by which the hub does them at most once. When no member answers within the budget the error is of class
// Unreachable and names each member with its cause.
//
// A watch is not resumed by itself: it ends with an error, and the caller resumes from the last resourceVersion it saw.
package remote
