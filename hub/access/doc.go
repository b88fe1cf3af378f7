// Package access says who somebody is and what they may: identities, Kubernetes' RBAC over the roles and bindings that this member has
// seen, and the rule that nobody grants what they do not hold. It decides; hub/apiserver and hub/admission ask.
//
// # Who
//
// An [Identity] is one of five kinds. A person has a client certificate of the hub's CA: its common name is the name, its organisations
// are the groups. A service account has a token (hub/tokens) and is called system:serviceaccount:NS:NAME. A member or a device has a
// certificate of the organisation drover:hubs or drover:devices; neither is ruled by RBAC: a member may what members ask of each other, a
// device nothing here, for it reaches its own objects by its link only. Who shows nothing is system:anonymous.
//
// Persons and service accounts are in system:authenticated, service accounts in system:serviceaccounts and system:serviceaccounts:NS,
// system:anonymous in system:unauthenticated. A certificate can name no user or group that begins with system:.
//
// # May
//
// [Policy.Authorize] answers by Kubernetes' rules to the letter, with one difference: a rule's verb "*" does not stand for bind, escalate
// and impersonate, which a rule must name. Whoever is in the group drover:admins may everything, whatever the bindings say, so that
// a broken binding locks nobody out; it is Kubernetes' system:masters.
//
// A decision rests on what this member has seen. A binding that was just written on another member counts here a moment later. Until
// roles and bindings were read once, everybody but admins, members and devices is told to try later; nobody is refused or let in by half
// of the rules.
//
// # Grant
//
// [Policy.Covers] says whether somebody holds every right of a list of rules. Admission asks it of whoever writes a role or a binding.
// The rules of an aggregated ClusterRole are written by a controller (controllers/rights), so that people read what they give.
//
// # A certificate for a colleague
//
//	POST /drover/v1/hub/users
//	{"user": "bob", "groups": ["night-shift"], "request": BASE64(PEM or DER of a PKCS#10 request, ECDSA P-256), "expirationSeconds": 7776000}
//
// answers 201 with
//
//	{"user": "bob", "groups": ["night-shift"], "certificate": BASE64(PEM), "ca": BASE64(PEM), "servers": ["https://..."], "notAfter": "2027-02-28T09:00:00Z"}
//
// The key stays with the client; of the request only its key is taken over. expirationSeconds is 10 minutes to a year, 90 days when absent,
// and never more than what is left of the CA. Whoever asks needs the verb post on that path, and impersonate on the user and on each group (as
// for Impersonate-User and Impersonate-Group), so that nobody makes a colleague of more rights than their own. Names and groups that begin with
// system:, and the groups of members and devices, are refused. The types are client/remote's UserRequest and UserCertificate.
//
// What this package does not do: it reads no certificate and no token, keeps no object, and knows no route.
package access
