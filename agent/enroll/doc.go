// Package enroll is the device's identity: its key, made at first boot and never again; the certificate that the hub signs for it; and
// the renewal of that certificate.
//
// It promises: the key is written once, in two copies, before it is used; the identity is kept crash-safe with its previous good
// copy; the hub that is asked is the one whose CA the token names, whatever the clock says; a refusal is a slow retry with a plain
// reason, never an end; the token is read anew at each try, so that a better one can be put in place; a certificate is renewed at two
// thirds of its life without a restart, and one that has ended is renewed by the key alone. None of it touches workloads.
package enroll
