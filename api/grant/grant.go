package grant

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Grant is what the pool that counts for a device allows on it. The zero Grant is that of a device without a pool: every namespace,
// the host's network, and nothing else.
type Grant struct {
	Pool       string   `cbor:"1,keyasint,omitempty"` // name of the DevicePool; "" = none
	Namespaces []string `cbor:"2,keyasint,omitempty"` // that may place on the device; "*" = every one
	// NoHostNetwork refuses whoever runs on the host's network. It is written as a refusal so that absent means allowed.
	NoHostNetwork bool     `cbor:"3,keyasint,omitempty"`
	HostPorts     []int32  `cbor:"4,keyasint,omitempty"` // 1 to 65535
	HostPaths     []string `cbor:"5,keyasint,omitempty"` // each with what lies below it
	Devices       []string `cbor:"6,keyasint,omitempty"` // device files, as globs below /dev
	Privileged    bool     `cbor:"7,keyasint,omitempty"`
}

// Every is the namespace that stands for all.
const Every = "*"

// What is a kind of privilege.
type What uint8

// The privileges.
const (
	HostNetwork What = iota + 1
	HostPort
	HostPath
	DeviceFile
	Privileged
)

// Need is one privilege that a workload asks for.
type Need struct {
	What  What
	Field string // where it is asked for, as containers[0].ports[1].hostPort
	Path  string // HostPath, DeviceFile
	Port  int32  // HostPort
}

// Denial is one thing that a Grant does not allow.
type Denial struct {
	Pool    string // "" = the device has no pool
	Field   string // of the need; "" = the namespace itself is not admitted
	Reason  string // short, without the field
	Allowed string // what the pool allows of the kind, for people
}

// String says it whole: what is refused, by which pool, and what it allows.
func (d *Denial) String() string {
	if d.Allowed == "" {
		return d.Reason
	}
	return d.Reason + " (" + d.Allowed + ")"
}

// Judge says why a workload of the namespace with these needs may not run under the grant, by the first thing that is not allowed; nil
// when it may.
func (g Grant) Judge(namespace string, needs []Need) *Denial {
	for d := range g.denials(namespace, needs) {
		return d
	}
	return nil
}

// Denials is everything that is not allowed: the namespace alone where it is not admitted, else every need.
func (g Grant) Denials(namespace string, needs []Need) []*Denial {
	return slices.Collect(g.denials(namespace, needs))
}

func (g Grant) denials(namespace string, needs []Need) iter.Seq[*Denial] {
	return func(yield func(*Denial) bool) {
		if d := g.JudgeNamespace(namespace); d != nil {
			yield(d)
			return
		}
		for i := range needs {
			if d := g.JudgeNeed(&needs[i]); d != nil && !yield(d) {
				return
			}
		}
	}
}

// JudgeNamespace judges only whether the namespace may use the device at all.
func (g Grant) JudgeNamespace(namespace string) *Denial {
	if g.Pool == "" || slices.Contains(g.Namespaces, Every) || slices.Contains(g.Namespaces, namespace) {
		return nil
	}
	return &Denial{Pool: g.Pool, Reason: fmt.Sprintf("pool %s does not admit namespace %s", g.Pool, namespace),
		Allowed: "it admits " + list(g.Namespaces)}
}

// JudgeNeed judges one need.
func (g Grant) JudgeNeed(n *Need) *Denial {
	switch n.What {
	case HostNetwork:
		if !g.NoHostNetwork {
			return nil
		}
		return g.denial(n, "the host's network", "")
	case HostPort:
		if slices.Contains(g.HostPorts, n.Port) {
			return nil
		}
		return g.denial(n, "host port "+strconv.Itoa(int(n.Port)), ports(g.HostPorts))
	case HostPath:
		if _, ok := g.Root(n.Path); ok {
			return nil
		}
		return g.denial(n, "host path "+clip(n.Path), list(g.HostPaths))
	case DeviceFile:
		if g.AllowsDevice(n.Path) {
			return nil
		}
		return g.denial(n, "device file "+clip(n.Path), list(g.Devices))
	case Privileged:
		if g.Privileged {
			return nil
		}
		return g.denial(n, "privileged containers", "")
	}
	return g.denial(n, "a privilege that this build does not know", "")
}

func (g Grant) denial(n *Need, what, allowed string) *Denial {
	d := &Denial{Pool: g.Pool, Field: n.Field, Reason: "no pool of the device allows " + what}
	if g.Pool != "" {
		d.Reason = "pool " + g.Pool + " does not allow " + what
		if allowed != "" {
			d.Allowed = "it allows " + allowed
		}
	}
	return d
}

// Root is the allowed path that p is or lies below: the outermost one, since who may write there may have put a link in the place of one
// within. A path that is not absolute, or has a part "..", is below none.
func (g Grant) Root(p string) (root string, ok bool) {
	p, clean := absolute(p)
	if !clean {
		return "", false
	}
	for _, r := range g.HostPaths {
		r, clean := absolute(r)
		if clean && (p == r || r == "/" || strings.HasPrefix(p, r+"/")) && (!ok || len(r) < len(root)) {
			root, ok = r, true
		}
	}
	return root, ok
}

// AllowsDevice reports whether a device file matches one of the globs. A star does not reach over a slash.
func (g Grant) AllowsDevice(p string) bool {
	p, clean := absolute(p)
	if !clean || !strings.HasPrefix(p, "/dev/") {
		return false
	}
	return slices.ContainsFunc(g.Devices, func(glob string) bool {
		match, err := path.Match(glob, p)
		return err == nil && match
	})
}

// absolute cleans p; ok is false when it is relative, steps back or holds a zero byte.
func absolute(p string) (clean string, ok bool) {
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) || slices.Contains(strings.Split(p, "/"), "..") {
		return "", false
	}
	return path.Clean(p), true
}

const shown = 8 // entries of a list in a message

func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	if len(items) > shown {
		return strings.Join(items[:shown], ", ") + fmt.Sprintf(" and %d more", len(items)-shown)
	}
	return strings.Join(items, ", ")
}

func ports(items []int32) string {
	text := make([]string, len(items))
	for i, p := range items {
		text[i] = strconv.Itoa(int(p))
	}
	return list(text)
}

func clip(s string) string {
	if len(s) > 128 {
		return s[:128] + "..."
	}
	return s
}
