package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-fleet/drover/api/wire"
)

// Kind says how somebody is known.
type Kind string

// The kinds of identities. The zero value is nobody.
const (
	Nobody         Kind = ""
	Person         Kind = "person"
	ServiceAccount Kind = "serviceaccount"
	Member         Kind = "member"
	Device         Kind = "device"
)

// Names and groups that Kubernetes reserves.
const (
	Reserved            = "system:" // what begins so is given by the hub alone
	NameNobody          = "system:anonymous"
	GroupAuthenticated  = "system:authenticated"
	GroupNobody         = "system:unauthenticated"
	GroupServiceAccount = "system:serviceaccounts"
	accountPrefix       = "system:serviceaccount:"
)

// Identity is who makes a request. It is not changed once made.
type Identity struct {
	Kind   Kind                `json:"kind,omitempty"`
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Anonymous is whoever shows nothing.
func Anonymous() Identity {
	return Identity{Kind: Nobody, Name: NameNobody, Groups: []string{GroupNobody}}
}

// NewPerson is somebody of a name and groups, and authenticated.
func NewPerson(name string, groups ...string) Identity {
	return Identity{Kind: Person, Name: name, Groups: withAuthenticated(groups)}
}

// NewServiceAccount is the account of a token. extra says what the token is bound to.
func NewServiceAccount(namespace, name, uid string, extra map[string][]string) Identity {
	return Identity{
		Kind: ServiceAccount, Name: AccountName(namespace, name), UID: uid, Extra: extra,
		Groups: AccountGroups(namespace),
	}
}

// AccountName is the user name of a service account.
func AccountName(namespace, name string) string { return accountPrefix + namespace + ":" + name }

// AccountGroups are the groups of every service account of a namespace.
func AccountGroups(namespace string) []string {
	return []string{GroupServiceAccount, GroupServiceAccount + ":" + namespace, GroupAuthenticated}
}

// AccountOf reads the user name of a service account.
func AccountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, accountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}

func withAuthenticated(groups []string) []string {
	out := slices.Clone(groups)
	if !slices.Contains(out, GroupAuthenticated) {
		out = append(out, GroupAuthenticated)
	}
	return out
}

// IsAdmin holds for those who may everything.
func (id Identity) IsAdmin() bool {
	return (id.Kind == Person || id.Kind == ServiceAccount) && slices.Contains(id.Groups, wire.OrgAdmins)
}

// Ruled holds for those whose rights are roles'. Members and devices have rules of their own.
func (id Identity) Ruled() bool { return id.Kind != Member && id.Kind != Device }

// Actor is the name that the journal of causes and the audit keep.
func (id Identity) Actor() string {
	switch id.Kind {
	case Person:
		return "user:" + id.Name
	case ServiceAccount:
		namespace, name, _ := AccountOf(id.Name)
		return "serviceaccount:" + namespace + "/" + name
	case Member:
		return "hub:" + id.Name
	case Device:
		return "device:" + id.Name
	}
	return "anonymous"
}

// CheckPersonal refuses what no person and no group of persons may be called: what the hub alone gives.
func CheckPersonal(name string) error {
	switch {
	case name == "":
		return errors.New("a user or group has no name")
	case len(name) > maxName:
		return fmt.Errorf("user or group of %d bytes: the limit is %d bytes", len(name), maxName)
	case strings.HasPrefix(name, Reserved):
		return fmt.Errorf("user or group %q: names that begin with %s are the hub's own", name, Reserved)
	case strings.HasPrefix(name, "drover:") && name != wire.OrgAdmins:
		return fmt.Errorf("user or group %q: of those that begin with drover: only %s is for people", name, wire.OrgAdmins)
	case strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }):
		return fmt.Errorf("user or group %q: want printable characters", name)
	}
	return nil
}

const maxName = 200 // bytes of a user's or group's name
