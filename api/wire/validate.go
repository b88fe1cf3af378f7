package wire

import (
	"fmt"
	"strings"
)

// Limits of parts of messages.
const (
	maxName       = 253
	maxUID        = 64
	maxText       = 4096  // messages, free text
	maxLongText   = 32768 // one argument or value
	maxEntries    = 1024  // assignments on a device
	maxContainers = 32
	maxVariable   = 128<<10 - 1 // "NAME=value": Linux starts no program with a longer one
	maxItems      = 1024        // arguments, variables, mounts
	maxJournal    = 1024        // records in one report
	maxCSR        = 8 << 10
	maxSealed     = MaxBody + 256
)

// checkName wants 1 to 253 of a-z A-Z 0-9 - _ . without a leading dot: names and UIDs become file names on devices.
func checkName(what, s string) error {
	if s == "" || len(s) > maxName || s[0] == '.' {
		return fmt.Errorf("%s %q: want 1 to %d letters, digits, '-', '_' or '.', no leading '.'", what, clip(s), maxName)
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%s %q: character %q at %d; want letters, digits, '-', '_' or '.'", what, clip(s), c, i)
		}
	}
	return nil
}

func checkUID(s string) error {
	if len(s) > maxUID {
		return fmt.Errorf("uid %q is longer than %d", clip(s), maxUID)
	}
	return checkName("uid", s)
}

func checkText(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s is %d bytes; the limit is %d", what, len(s), limit)
	}
	return nil
}

func checkCount(what string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("%d %s; the limit is %d", n, what, limit)
	}
	return nil
}

func checkHash(what string, h Hash, required bool) error {
	if len(h) == 32 || (len(h) == 0 && !required) {
		return nil
	}
	return fmt.Errorf("%s is %d bytes, want 32", what, len(h))
}

// clip shortens s for an error message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// each runs check on the elements until one fails.
func each[T any](list []T, check func(*T) error) error {
	for i := range list {
		if err := check(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// ordered wants strictly rising keys, which also means no key twice.
func ordered[T any](what string, list []T, key func(*T) string) error {
	for i := 1; i < len(list); i++ {
		if key(&list[i]) <= key(&list[i-1]) {
			return fmt.Errorf("%s %q is not after %q: want them ordered, each once", what, clip(key(&list[i])), clip(key(&list[i-1])))
		}
	}
	return nil
}

// distinct wants no key twice.
func distinct[T any](what string, list []T, key func(*T) string) error {
	seen := make(map[string]bool, len(list))
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			return fmt.Errorf("%s %q is there twice", what, clip(k))
		}
		seen[k] = true
	}
	return nil
}

// Validate checks lengths.
func (p *Position) Validate() error {
	return first(checkText("cluster id", p.ClusterID, maxUID), checkText("epoch id", p.EpochID, maxUID))
}

// Validate checks a Hello.
func (h *Hello) Validate() error {
	if h.Capability == 0 {
		return fmt.Errorf("capability is 0, want 1 or more")
	}
	if h.Session == 0 {
		return fmt.Errorf("session is 0, want 1 or more")
	}
	return first(checkText("agent version", h.AgentVersion, maxName), checkText("boot id", h.BootID, maxName),
		h.Held.Validate(), checkHash("bundle hash", h.BundleHash, false), h.Facts.Validate())
}

// Validate checks a HelloReply.
func (h *HelloReply) Validate() error {
	if h.Capability == 0 {
		return fmt.Errorf("capability is 0, want 1 or more")
	}
	return first(checkCount("endpoints", len(h.Endpoints), maxItems), each(h.Endpoints, func(s *string) error { return checkText("endpoint", *s, maxText) }))
}

// Validate checks a Poll.
func (p *Poll) Validate() error {
	return first(p.Held.Validate(), checkHash("bundle hash", p.BundleHash, false))
}

// Validate checks a PollReply; the signed payloads are checked when they are decoded.
func (p *PollReply) Validate() error { return checkCount("commands", len(p.Commands), maxItems) }

// Validate checks a Desired, its bundle hash included.
func (d *Desired) Validate() error {
	if err := first(d.Position.Validate(), checkName("device", d.Device), checkHash("bundle hash", d.BundleHash, true),
		checkCount("assignments", len(d.Assignments), maxEntries), each(d.Assignments, (*Entry).Validate),
		ordered("assignment", d.Assignments, func(e *Entry) string { return e.UID }),
		checkGrant(d.Grant), each(d.Tombstones, (*Tombstone).Validate),
		ordered("tombstone", d.Tombstones, func(t *Tombstone) string { return t.UID })); err != nil {
		return err
	}
	want, err := d.ComputeBundleHash()
	if err != nil {
		return err
	}
	if !want.Equal(d.BundleHash) {
		return fmt.Errorf("bundle hash is %s, its content has %s", d.BundleHash, want)
	}
	return nil
}

// Validate checks an Entry.
func (e *Entry) Validate() error {
	return first(checkUID(e.UID), checkHash("spec hash", e.SpecHash, true), checkCount("secrets", len(e.Secrets), maxItems), each(e.Secrets, (*SecretRef).Validate))
}

// Validate checks a Tombstone.
func (t *Tombstone) Validate() error {
	return first(checkUID(t.UID), checkText("tombstone name", t.Name, 2*maxName+1))
}

// Validate checks a SecretRef.
func (r *SecretRef) Validate() error {
	if r.Name == "" {
		return fmt.Errorf("secret reference without a name")
	}
	return first(checkText("secret name", r.Name, 3*maxName+2), checkHash("secret id", r.ID, true))
}

// Validate checks an Assignment.
func (a *Assignment) Validate() error {
	if len(a.Containers) == 0 {
		return fmt.Errorf("assignment %q has no container", clip(a.Name))
	}
	if a.Restart > RestartNever {
		return fmt.Errorf("restart policy %d is not known", a.Restart)
	}
	if err := first(checkUID(a.UID), checkName("namespace", a.Namespace), checkName("name", a.Name), checkName("workload", a.Workload), checkName("revision", a.Revision),
		checkCount("containers", len(a.Containers), maxContainers), checkCount("volumes", len(a.Volumes), maxItems),
		each(a.Containers, (*Container).Validate), each(a.Volumes, (*Volume).Validate), a.checkTokens(),
		distinct("container", a.Containers, func(c *Container) string { return c.Name }),
		distinct("volume", a.Volumes, func(v *Volume) string { return v.Name })); err != nil {
		return err
	}
	return a.mountsExist()
}

func (a *Assignment) mountsExist() error {
	volumes := make(map[string]bool, len(a.Volumes))
	for _, v := range a.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range a.Containers {
		for _, m := range c.Mounts {
			if !volumes[m.Volume] {
				return fmt.Errorf("container %q mounts volume %q, which is not there", clip(c.Name), clip(m.Volume))
			}
		}
	}
	return nil
}

// Validate checks a Container.
func (c *Container) Validate() error {
	if _, digest, ok := strings.Cut(c.Image, "@"); !ok || !validDigest(digest) {
		return fmt.Errorf("image %q is not repository@sha256:DIGEST", clip(c.Image))
	}
	return first(checkName("container", c.Name), checkText("image", c.Image, maxText), checkText("image name", c.ImageName, maxText),
		checkStrings("command", c.Command), checkStrings("args", c.Args), checkText("working directory", c.WorkingDir, maxText),
		checkCount("variables", len(c.Env), maxItems), each(c.Env, (*Env).Validate),
		checkCount("mounts", len(c.Mounts), maxItems), each(c.Mounts, (*Mount).Validate), c.Readiness.Validate(),
		checkCount("host ports", len(c.HostPorts), maxItems), each(c.HostPorts, checkPort),
		checkCount("device files", len(c.Devices), maxItems), each(c.Devices, (*DeviceFile).Validate))
}

func checkPort(p *int32) error {
	if *p < 1 || *p > 65535 {
		return fmt.Errorf("port %d: want 1 to 65535", *p)
	}
	return nil
}

// Validate checks a DeviceFile.
func (d *DeviceFile) Validate() error {
	if d.Permissions == "" || len(d.Permissions) > 3 || strings.Trim(d.Permissions, "rwm") != "" {
		return fmt.Errorf("device file %q with permissions %q: want r, w and m", clip(d.Path), clip(d.Permissions))
	}
	return checkPath("device file", d.Path)
}

func validDigest(s string) bool {
	h, err := ParseHash(s)
	return err == nil && len(h) > 0
}

func checkStrings(what string, list []string) error {
	return first(checkCount(what, len(list), maxItems), each(list, func(s *string) error {
		if strings.ContainsRune(*s, 0) {
			return fmt.Errorf("%s has a zero byte", what)
		}
		return checkText(what, *s, maxLongText)
	}))
}

// Validate checks an Env.
func (e *Env) Validate() error {
	if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") || strings.ContainsRune(e.Value, 0) {
		return fmt.Errorf("variable %q: want a name without '=' and no zero byte", clip(e.Name))
	}
	if e.Secret != nil {
		if e.Value != "" {
			return fmt.Errorf("variable %q has both a value and a secret", clip(e.Name))
		}
		return e.Secret.Validate()
	}
	return first(checkText("variable name", e.Name, maxText), checkText("variable "+clip(e.Name)+" with its name", e.Name+"="+e.Value, maxVariable))
}

// Validate checks a Mount.
func (m *Mount) Validate() error {
	return first(checkName("volume", m.Volume), checkPath("mount path", m.Path))
}

// Validate checks a Volume.
func (v *Volume) Validate() error {
	if v.HostPath == "" {
		return first(checkName("volume", v.Name), v.checkTokens())
	}
	return first(checkName("volume", v.Name), checkPath("host path", v.HostPath), checkText("host path type", v.HostType, maxUID), v.checkTokens())
}

// checkPath wants an absolute path without "..".
func checkPath(what, p string) error {
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%s %q is not an absolute path", what, clip(p))
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return fmt.Errorf("%s %q has a part \"..\"", what, clip(p))
		}
	}
	return checkText(what, p, maxText)
}

// Validate checks a Probe; nil is no probe.
func (p *Probe) Validate() error {
	switch {
	case p == nil:
		return nil
	case len(p.Command) == 0:
		return fmt.Errorf("probe without a command")
	case p.PeriodSecs == 0 || p.TimeoutSecs == 0 || p.Successes == 0 || p.Failures == 0:
		return fmt.Errorf("probe with period %d s, timeout %d s, successes %d, failures %d: want each at least 1", p.PeriodSecs, p.TimeoutSecs, p.Successes, p.Failures)
	}
	return checkStrings("probe command", p.Command)
}
