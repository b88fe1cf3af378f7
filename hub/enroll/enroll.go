package enroll

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
)

// Phases of an EnrollmentRequest.
const (
	PhasePending  = "Pending"
	PhaseApproved = "Approved"
	PhaseDenied   = "Denied"
	PhaseConflict = "Conflict"
)

// Config of an Enroller. Client and Authority are required; SealingKey, AddMember and Records only for hub members to join.
type Config struct {
	Client     client.Client // as this hub member
	Authority  *Authority
	Endpoints  func() []string // URLs of all members, told to devices
	Now        func() time.Time
	Logger     *slog.Logger
	MaxAtOnce  int // enrollments handled at once; default 32. More are told to come back
	SealingKey func() []byte
	Records    Records
	// CheckMember refuses a member that AddMember could not add, before a use of its token is taken; nil refuses none.
	CheckMember func(m Member) error
	// AddMember makes the member part of the hub and returns all members. Adding one that is there already changes nothing.
	AddMember func(ctx context.Context, m Member) ([]Member, error)
}

// Enroller answers those who have no certificate yet. Safe for concurrent use.
type Enroller struct {
	c    Config
	busy chan struct{}
}

// New makes an Enroller.
func New(c Config) (*Enroller, error) {
	if c.Client == nil || c.Authority == nil {
		return nil, errors.New("enroll: Client and Authority are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Endpoints == nil {
		c.Endpoints = func() []string { return nil }
	}
	if c.CheckMember == nil {
		c.CheckMember = func(Member) error { return nil }
	}
	if c.MaxAtOnce <= 0 {
		c.MaxAtOnce = 32
	}
	return &Enroller{c: c, busy: make(chan struct{}, c.MaxAtOnce)}, nil
}

// Enroll answers a device: approved with a certificate, pending, or denied, the latter two with a reason and when to ask again. It is
// idempotent by key: a device that missed the answer asks again and gets it.
func (e *Enroller) Enroll(ctx context.Context, q wire.EnrollRequest, source string) (wire.EnrollReply, error) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	default:
		return wire.EnrollReply{}, fault.SlowDown(5*time.Second, "too many devices enroll at once")
	}
	reply, err := e.answer(ctx, q, source)
	var no *refusal
	if errors.As(err, &no) {
		e.c.Logger.Warn("enrollment refused", "device", q.Name, "source", source, "reason", no.message)
		return wire.EnrollReply{State: wire.EnrollDenied, Message: no.message, RetrySecs: uint32(no.retry / time.Second)}, nil
	}
	return reply, err
}

func (e *Enroller) answer(ctx context.Context, q wire.EnrollRequest, source string) (wire.EnrollReply, error) {
	key, err := CheckRequest(q.CSR)
	if err != nil {
		return wire.EnrollReply{}, err
	}
	fp, err := Fingerprint(key)
	if err != nil {
		return wire.EnrollReply{}, err
	}
	if err := api.CheckDNSName(q.Name); err != nil {
		return wire.EnrollReply{}, refuse(retryToken, "device name: "+err.Error())
	}
	for try := 0; ; try++ {
		reply, err := e.once(ctx, q, fp, source)
		if !fault.Is(err, fault.Conflict, fault.AlreadyExists) || try == maxTries {
			return reply, err
		}
	}
}

// once reads how things stand and takes the next step. A conflict means that things changed meanwhile.
func (e *Enroller) once(ctx context.Context, q wire.EnrollRequest, fp, source string) (wire.EnrollReply, error) {
	d, err := get[api.Device](ctx, e.c.Client, api.KindDevice, q.Name)
	if err != nil {
		return wire.EnrollReply{}, err
	}
	rq, err := get[api.EnrollmentRequest](ctx, e.c.Client, api.KindEnrollmentRequest, requestName(fp))
	if err != nil {
		return wire.EnrollReply{}, err
	}
	switch {
	case rq != nil && rq.Spec.Denied:
		return wire.EnrollReply{}, e.deny(ctx, rq)
	case d != nil && d.Status.Identity.Fingerprint == fp && e.mayRenew(d):
		return e.issue(ctx, q, fp, d, rq)
	case rq != nil && rq.Status.Phase != PhaseApproved && rq.Spec.Device == q.Name:
		return e.decide(ctx, q, fp, d, rq)
	}
	return e.knock(ctx, q, fp, d, rq, source)
}

// mayRenew is false when the certificate ended longer ago than the grace; then a token is needed again.
func (e *Enroller) mayRenew(d *api.Device) bool {
	end := d.Status.Identity.CertificateNotAfter
	return end.IsZero() || e.c.Now().Before(end.Add(renewGrace))
}

// requestName is derived from the key, so that a retry finds its request.
func requestName(fp string) string { return "key-" + strings.TrimPrefix(fp, "sha256:")[:40] }

func (e *Enroller) deny(ctx context.Context, rq *api.EnrollmentRequest) error {
	const message = "this device's key was denied by an operator; it stays denied until the enrollment request is deleted"
	if err := e.phase(ctx, rq, PhaseDenied, message); err != nil {
		return err
	}
	return refuse(retryDenied, message)
}

// knock checks the token, takes one use of it and notes the request. A request of the same key that was answered before (its device
// was deleted or replaced since), or that asked for another name, gives way to the new one.
func (e *Enroller) knock(ctx context.Context, q wire.EnrollRequest, fp string, d *api.Device, old *api.EnrollmentRequest, source string) (wire.EnrollReply, error) {
	if q.Token == "" {
		return wire.EnrollReply{}, refuse(retryToken, "a join token is needed: this key is not that of a device of the name "+q.Name)
	}
	j, err := checkToken(ctx, e.c.Client, q.Token, ForDevice, e.c.Now())
	if err != nil {
		return wire.EnrollReply{}, err
	}
	if old != nil {
		del := api.Ref{Kind: api.KindEnrollmentRequest, Name: old.Metadata.Name}
		err := e.c.Client.Delete(ctx, del, client.DeleteOptions{UID: old.Metadata.UID, ResourceVersion: old.Metadata.ResourceVersion})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return wire.EnrollReply{}, err
		}
	}
	rq := &api.EnrollmentRequest{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: api.KindEnrollmentRequest.Kind},
		Metadata: api.ObjectMeta{Name: requestName(fp)},
		Spec: api.EnrollmentRequestSpec{
			Device: q.Name, Fingerprint: fp, Token: j.Metadata.Name, Labels: j.Spec.Labels, CSR: q.CSR, Source: source,
			Facts: factsOf(q.Facts), Approved: !j.Spec.Approve,
		},
	}
	res, err := e.c.Client.Transact(ctx, client.Transaction{Items: []client.TxItem{countUse(j), {Verb: client.TxCreate, Object: rq}}})
	if err != nil {
		return wire.EnrollReply{}, err
	}
	made, ok := res[1].Object.(*api.EnrollmentRequest)
	if !ok {
		return wire.EnrollReply{}, fault.Internal.Errorf("create enrollment request: got a %T", res[1].Object)
	}
	e.c.Logger.Info("device knocks", "device", q.Name, "key", fp, "token", j.Metadata.Name, "source", source)
	return e.decide(ctx, q, fp, d, made)
}

// decide answers a request that is noted: by the operator's word, or the token's, and by who has the name.
func (e *Enroller) decide(ctx context.Context, q wire.EnrollRequest, fp string, d *api.Device, rq *api.EnrollmentRequest) (wire.EnrollReply, error) {
	taken := d != nil && d.Status.Identity.Fingerprint != "" && d.Status.Identity.Fingerprint != fp
	switch {
	case taken && !(rq.Spec.Replace && rq.Spec.Approved):
		return e.pending(ctx, rq, PhaseConflict, "device "+q.Name+" exists with another key: an operator must let this one replace it "+
			"(set spec.approved and spec.replace of enrollment request "+rq.Metadata.Name+"), or it must take another name")
	case !rq.Spec.Approved:
		return e.pending(ctx, rq, PhasePending, "waiting for an operator to approve enrollment request "+rq.Metadata.Name)
	}
	return e.issue(ctx, q, fp, d, rq)
}

func (e *Enroller) pending(ctx context.Context, rq *api.EnrollmentRequest, phase, message string) (wire.EnrollReply, error) {
	if err := e.phase(ctx, rq, phase, message); err != nil {
		return wire.EnrollReply{}, err
	}
	return wire.EnrollReply{State: wire.EnrollPending, Message: message, RetrySecs: uint32(retryWait / time.Second)}, nil
}

func (e *Enroller) phase(ctx context.Context, rq *api.EnrollmentRequest, phase, message string) error {
	if rq.Status.Phase == phase && rq.Status.Message == message {
		return nil
	}
	n := api.Copy(rq)
	n.Status.Phase, n.Status.Message = phase, message
	_, err := e.c.Client.Update(ctx, n, client.WriteOptions{Subresource: "status"})
	return err
}

// issue signs the certificate and binds the name to the key, in one transaction with the answer.
func (e *Enroller) issue(ctx context.Context, q wire.EnrollRequest, fp string, d *api.Device, rq *api.EnrollmentRequest) (wire.EnrollReply, error) {
	cert, err := e.c.Authority.SignDevice(q.CSR, q.Name)
	if err != nil {
		return wire.EnrollReply{}, err
	}
	tx := client.Transaction{Items: planDevice(q, fp, d, rq, cert.NotAfter)}
	if rq != nil {
		n := api.Copy(rq)
		n.Status = api.EnrollmentRequestStatus{Phase: PhaseApproved, Certificate: cert.Raw}
		tx.Items = append(tx.Items, client.TxItem{Verb: client.TxStatus, Object: n})
	}
	if _, err := e.c.Client.Transact(ctx, tx); err != nil {
		return wire.EnrollReply{}, err
	}
	e.c.Logger.Info("device enrolled", "device", q.Name, "key", fp, "until", cert.NotAfter)
	return wire.EnrollReply{
		State: wire.EnrollApproved, Certificate: cert.Raw, CA: [][]byte{e.c.Authority.CA()},
		ClusterID: e.c.Authority.ClusterID(), Endpoints: e.c.Endpoints(),
	}, nil
}

// planDevice creates the device or takes its name over. The device's resourceVersion is the precondition, so of two keys one wins.
func planDevice(q wire.EnrollRequest, fp string, d *api.Device, rq *api.EnrollmentRequest, notAfter time.Time) []client.TxItem {
	labels := map[string]string{}
	if rq != nil {
		for k, v := range rq.Spec.Labels {
			labels[k] = v
		}
	}
	labels[api.LabelHostname] = q.Name
	if arch := archOf(q.Facts.Platform); arch != "" {
		labels[api.LabelArch] = arch
	}
	var items []client.TxItem
	n := &api.Device{TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: api.KindDevice.Kind}, Metadata: api.ObjectMeta{Name: q.Name}}
	switch {
	case d == nil:
		n.Metadata.Labels = labels
		items = append(items, client.TxItem{Verb: client.TxCreate, Object: n})
	case d.Status.Identity.Fingerprint != fp:
		n = api.Copy(d)
		if mergeLabels(n, labels) {
			items = append(items, client.TxItem{Verb: client.TxUpdate, Object: n})
		}
	default:
		n = api.Copy(d)
	}
	s := api.Copy(n)
	if s.Status.Identity.Fingerprint != fp {
		// Another key is another board: what the old one held and said is no longer true of the name.
		s.Status = api.DeviceStatus{Facts: factsOf(q.Facts)}
		s.Status.Identity.Fingerprint = fp
	}
	s.Status.Identity.Serial = q.Facts.Serial
	s.Status.Identity.CertificateNotAfter = api.TimeOf(notAfter)
	return append(items, client.TxItem{Verb: client.TxStatus, Object: s})
}

// mergeLabels adds what is missing and sets what the hub knows better; an operator's own labels stay. It reports a change.
func mergeLabels(d *api.Device, labels map[string]string) bool {
	changed := false
	for k, v := range labels {
		have, ok := d.Metadata.Labels[k]
		if ok && (have == v || k != api.LabelArch && k != api.LabelHostname) {
			continue
		}
		if d.Metadata.Labels == nil {
			d.Metadata.Labels = map[string]string{}
		}
		d.Metadata.Labels[k] = v
		changed = true
	}
	return changed
}

func archOf(platform string) string {
	parts := strings.Split(platform, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func factsOf(f wire.Facts) api.DeviceFacts {
	return api.DeviceFacts{
		Platform: f.Platform, Model: f.Model, Kernel: f.Kernel, OSImage: f.OSImage, AgentVersion: f.AgentVersion, Runtime: f.Runtime,
		BootID: f.BootID, Cgroup: f.Cgroup, MemoryCgroup: f.MemoryCgroup, Hostname: f.Hostname,
	}
}

// get returns nil without an error when there is no such object.
func get[T any](ctx context.Context, c client.Client, k *api.Kind, name string) (*T, error) {
	o, err := c.Get(ctx, api.Ref{Kind: k, Name: name}, client.GetOptions{})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, ok := o.(any).(*T)
	if !ok {
		return nil, fault.Internal.Errorf("read %s %s: got a %T", k.Kind, name, o)
	}
	return t, nil
}
