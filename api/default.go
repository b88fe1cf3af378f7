package api

import "time"

// Defaults that Default fills in.
const (
	DefaultRevisionHistoryLimit = 10
	DefaultMaxUnavailable       = 10 // percent
	DefaultGraceSeconds         = 30
	DefaultTokenUses            = 1
	DefaultFileMode             = 0o644 // of files of projected volumes
	DefaultProjectedLife        = 3600  // seconds, of a projected token
	DefaultProgressDeadline     = 10 * time.Minute
	DefaultTokenLife            = 24 * time.Hour // of a JoinToken without expires; set by the hub
)

// Values of enumerated fields.
const (
	RestartAlways    = "Always"
	RestartOnFailure = "OnFailure"
	RestartNever     = "Never"

	PullIfNotPresent = "IfNotPresent"
	PullAlways       = "Always"
	PullNever        = "Never"

	EffectNoSchedule = "NoSchedule"

	TolerationEqual  = "Equal"
	TolerationExists = "Exists"

	TokenForDevice = "device"
	TokenForHub    = "hub"

	EnrollPending  = "Pending"
	EnrollApproved = "Approved"
	EnrollDenied   = "Denied"
	EnrollConflict = "Conflict"

	NamespaceActive      = "Active"
	NamespaceTerminating = "Terminating"

	SecretOpaque = "Opaque"

	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// Default fills in apiVersion, kind, the default namespace and the defaults of the kind, in place. It is idempotent and knows
// no clock: what depends on the time of creation (a token's expiry) is the hub's.
func Default(obj Object) {
	k, ok := KindFor(obj)
	if !ok {
		return
	}
	*obj.Type() = TypeMeta{k.APIVersion, k.Kind}
	if m := obj.Meta(); k.Namespaced && m.Namespace == "" {
		m.Namespace = DefaultNS
	}
	switch o := obj.(type) {
	case *Workload:
		defaultWorkload(&o.Spec)
	case *WorkloadRevision:
		defaultTemplate(&o.Spec.Template)
	case *Device:
		for i := range o.Spec.Taints {
			setDefault(&o.Spec.Taints[i].Effect, EffectNoSchedule)
		}
	case *JoinToken:
		setDefault(&o.Spec.For, TokenForDevice)
		setDefault(&o.Spec.Uses, DefaultTokenUses)
	case *Namespace:
		setDefault(&o.Status.Phase, NamespaceActive)
	case *Secret:
		defaultSecret(o)
	case *RoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	case *ClusterRoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	case *Event:
		setDefault(&o.EventType, EventNormal)
		setDefault(&o.Count, 1)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func defaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultWorkload(s *WorkloadSpec) {
	defaultPointer(&s.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	defaultPointer(&s.Rollout.MaxUnavailable, IntOrPercent{Percent: DefaultMaxUnavailable, IsPercent: true})
	setDefault(&s.Rollout.ProgressDeadline, Duration{DefaultProgressDeadline})
	for i := range s.Placement.Tolerations {
		setDefault(&s.Placement.Tolerations[i].Operator, TolerationEqual)
	}
	defaultTemplate(&s.Template)
}

func defaultTemplate(t *Template) {
	defaultPointer(&t.Spec.HostNetwork, true)
	defaultPointer(&t.Spec.TerminationGracePeriodSeconds, DefaultGraceSeconds)
	setDefault(&t.Spec.RestartPolicy, RestartAlways)
	for i := range t.Spec.Volumes {
		defaultProjected(t.Spec.Volumes[i].Projected)
	}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		setDefault(&c.ImagePullPolicy, PullIfNotPresent)
		for j := range c.Ports {
			setDefault(&c.Ports[j].Protocol, ProtocolTCP)
		}
		for j := range c.Devices {
			setDefault(&c.Devices[j].Permissions, DefaultPermissions)
		}
		if p := c.ReadinessProbe; p != nil {
			setDefault(&p.PeriodSeconds, 10)
			setDefault(&p.TimeoutSeconds, 1)
			setDefault(&p.SuccessThreshold, 1)
			setDefault(&p.FailureThreshold, 3)
		}
	}
}

func defaultProjected(p *ProjectedVolume) {
	if p == nil {
		return
	}
	defaultPointer(&p.DefaultMode, DefaultFileMode)
	for i := range p.Sources {
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			defaultPointer(&t.ExpirationSeconds, DefaultProjectedLife)
		}
	}
}

// defaultSecret merges stringData into data, as Kubernetes does on write.
func defaultSecret(s *Secret) {
	setDefault(&s.SecretType, SecretOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}
