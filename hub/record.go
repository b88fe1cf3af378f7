package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/auditlog"
	"github.com/drover-fleet/drover/hub/audit"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/fair"
	"github.com/drover-fleet/drover/hub/gateway/httpgw"
)

// folderAudit is where a member keeps its audit, in its directory.
const folderAudit = "audit"

// AuditConfig says how a member keeps its audit. Zero values are the defaults of hub/audit.
type AuditConfig struct {
	FileBytes int64
	Keep      int
	OnFailure audit.OnFailure
	Policy    *audit.Policy
}

func (h *Hub) openAudit() (err error) {
	c := h.cfg.Audit
	h.audit, err = audit.Open(audit.Config{
		Dir: h.dir.path(folderAudit), Member: h.id.Name, FileBytes: c.FileBytes, Keep: c.Keep, OnFailure: c.OnFailure, Policy: c.Policy,
		Logger: h.log, Observe: h.metrics.Audited,
	})
	return err
}

// ownFiles are kept for the log, the state and the like when connections are bounded by how many files the process may open.
const ownFiles = 512

// connLimits are the configured ones, within what the process may open.
func (h *Hub) connLimits() fair.ConnLimits {
	l := h.cfg.Conns
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && l.Total == 0 && files.Cur > 2*ownFiles {
		l.Total = int(min(files.Cur-ownFiles, 16<<10))
	}
	return l
}

// refusedConn counts a connection that was refused, and puts it on record.
func (h *Hub) refusedConn(r fair.Refusal) {
	h.metrics.Refused(r.Reason)
	actor := r.Identity
	if actor == "" {
		actor = "anonymous"
	}
	h.audit.Outcome(auditlog.Record{Actor: actor, Source: r.Source, Verb: "connect", Reason: r.Reason, Decision: auditlog.Deny})
}

// failedHandshake counts a certificate that was refused, and puts it on record. Whoever closes before the handshake is done is of no
// interest here, and whoever takes too long was counted by hub/fair.
func (h *Hub) failedHandshake(source, why string) {
	if !strings.Contains(why, "certificate") || strings.HasPrefix(why, "remote error") {
		return
	}
	h.metrics.Refused(reasonCertificate)
	h.audit.Outcome(auditlog.Record{
		Actor: "anonymous", Source: source, Verb: "connect", Reason: reasonCertificate, Note: why[:min(len(why), 200)], Decision: auditlog.Deny,
	})
}

const reasonCertificate = "certificate"

// recordedDevice is a device's client whose writes are put on record: what a report, or a first hello, has changed.
type recordedDevice struct {
	client.Client
	actor string
	audit *audit.Log
}

func (h *Hub) asDevice(device string) client.Client {
	actor := "device:" + device
	return recordedDevice{h.as(actor), actor, h.audit}
}

// Transact implements client.Client. A device is not told to wait when nothing can be put on record: that something is missing is
// recorded afterwards, and the store's journal has the write.
func (c recordedDevice) Transact(ctx context.Context, tx client.Transaction) ([]client.TxResult, error) {
	began := time.Now()
	results, err := c.Client.Transact(ctx, tx)
	r := auditlog.Record{
		Actor: c.actor, Source: audit.SourceOf(ctx), Verb: "report", Decision: auditlog.Allow, Code: 200, Ms: time.Since(began).Milliseconds(),
	}
	for i, item := range tx.Items {
		if err == nil && results[i].Action == unchanged {
			continue
		}
		if ref, ok := api.RefOf(item.Object); ok && len(r.Items) < maxItems {
			r.Items = append(r.Items, auditlog.Item{Verb: string(item.Verb), Object: auditlog.Object{
				Group: ref.Kind.Group(), Resource: ref.Kind.Plural, Kind: ref.Kind.Kind, Namespace: ref.Namespace, Name: ref.Name,
			}})
		}
	}
	switch {
	case err != nil:
		s := fault.StatusOf(err)
		r.Code, r.Reason = s.Code, s.Reason
		if fault.Is(err, fault.Conflict, fault.Unavailable) {
			return results, err // it is tried again, and what it comes to is on record
		}
		if fault.Is(err, fault.Forbidden) {
			r.Decision = auditlog.Deny
		}
	case len(r.Items) == 0:
		return results, nil
	}
	c.audit.Outcome(r)
	return results, err
}

const (
	maxItems  = 100         // of a device's write that a record names
	unchanged = "unchanged" // client.TxResult.Action
)

// recordedEnroller puts on record who asks for a certificate, before it is given out, and what came of it.
type recordedEnroller struct {
	httpgw.Enroller
	audit *audit.Log
}

// Enroll implements httpgw.Enroller.
func (e recordedEnroller) Enroll(ctx context.Context, q wire.EnrollRequest, source string) (reply wire.EnrollReply, err error) {
	ctx = audit.WithSource(ctx, source)
	err = e.record(ctx, "enroll", auditlog.Object{Group: api.Group, Resource: "devices", Kind: "Device", Name: clipped(q.Name)}, func() (string, error) {
		reply, err = e.Enroller.Enroll(ctx, q, source)
		return reply.State, err
	})
	return reply, err
}

// Join implements httpgw.Enroller.
func (e recordedEnroller) Join(ctx context.Context, q enroll.JoinRequest) (reply enroll.JoinReply, err error) {
	err = e.record(ctx, "join", auditlog.Object{Kind: "Member", Name: clipped(q.Member.Name)}, func() (string, error) {
		reply, err = e.Enroller.Join(ctx, q)
		return "", err
	})
	return reply, err
}

func clipped(name string) string { return name[:min(len(name), 253)] }

func (e recordedEnroller) record(ctx context.Context, verb string, object auditlog.Object, do func() (state string, err error)) error {
	began := time.Now()
	r := auditlog.Record{RequestID: rand.Text(), Actor: "anonymous", Source: audit.SourceOf(ctx), Verb: verb, Object: &object}
	if err := e.audit.Receipt(ctx, r); err != nil {
		return err
	}
	state, err := do()
	r.Code, r.Reason, r.Decision, r.Ms = 200, state, auditlog.Allow, time.Since(began).Milliseconds()
	if err != nil {
		s := fault.StatusOf(err)
		r.Code, r.Reason = s.Code, s.Reason
	}
	if state == wire.EnrollDenied || fault.Is(err, fault.Forbidden, fault.Unauthorized, fault.BadRequest) {
		r.Decision = auditlog.Deny
	}
	e.audit.Outcome(r)
	return err
}

// NoteForced puts an operation on a stopped member's directory on record in its audit: one that overrides a safety.
func NoteForced(path, verb, note string) error {
	d := dir(path)
	id, err := d.loadIdentity()
	if err != nil {
		return err
	}
	return d.noteForced(id.Name, verb, note)
}

func (d dir) noteForced(member, verb, note string) error {
	log, err := audit.Open(audit.Config{Dir: d.path(folderAudit), Member: member})
	if err != nil {
		return err
	}
	err = log.Event(context.Background(), auditlog.Record{
		Actor: fmt.Sprintf("local:uid-%d", os.Getuid()), Verb: verb, Note: note, Forced: true, Decision: auditlog.Allow,
	})
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("done, but not on record: %w", err)
	}
	return nil
}
