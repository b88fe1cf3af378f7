package links

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/gateway/httpgw"
)

func hello(session uint64) wire.Hello {
	return wire.Hello{Capability: wire.CapabilityNow, AgentVersion: "test", BootID: "boot", Session: session, Facts: wire.Facts{Platform: "linux/arm64/v8"}}
}

func secretEnv(name, key string) api.EnvVar {
	return api.EnvVar{Name: "S", ValueFrom: &api.EnvVarSource{SecretKeyRef: &api.KeySelector{Name: name, Key: key}}}
}

func TestADeviceRunsWhatIsDeclaredAndTheHubHearsOfIt(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	_, err := h.admin.Create(t.Context(), &api.Secret{TypeMeta: api.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string][]byte{"k": []byte("hunter2"), "other": []byte("not needed")}}, client.WriteOptions{})
	check(t, err)
	a := h.assign("pi-01", "camera", "camera-1", secretEnv("s", "k"))
	b.connect(m.url)

	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	if got := see(b, func() int { return len(b.secrets) }); got != 1 {
		t.Errorf("the device holds %d secret values, want the one it needs", got)
	}
	for _, v := range see(b, func() map[string]string { return b.secrets }) {
		if v != "hunter2" {
			t.Errorf("secret %q, want hunter2", v)
		}
	}
	eventually(t, "the hub knows that it is ready", func() bool { return h.assignment(a).Status.Ready })
	d := h.device("pi-01")
	if d.Status.Bundle.Held != d.Status.Bundle.Desired {
		eventually(t, "held is desired", func() bool { d = h.device("pi-01"); return d.Status.Bundle.Held == d.Status.Bundle.Desired })
	}
	if _, ok := m.gateway.Contacts().Last("pi-01"); !ok {
		t.Error("no contact noted")
	}

	h.move(a, "camera-2")
	eventually(t, "camera-2 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-2" })

	check(t, h.admin.Delete(t.Context(), api.Ref{Kind: api.KindAssignment, Namespace: "default", Name: a.Metadata.Name}, client.DeleteOptions{}))
	eventually(t, "it is removed", func() bool { return b.runsRevision(a.Metadata.UID) == "" })
	eventually(t, "its tombstone goes", func() bool { return h.count(api.KindTombstone) == 0 })
	for i, p := range see(b, func() []wire.Position { return b.told }) {
		if i > 0 && p.Older(b.told[i-1]) {
			t.Errorf("told %+v after %+v", p, b.told[i-1])
		}
	}
}

func TestWritesThatAreNoInputWakeNobody(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	b.connect(m.url)
	eventually(t, "ready", func() bool { return h.assignment(a).Status.Ready })
	told := see(b, func() int { return len(b.told) })
	h.revision("other", "other-1")
	h.assign("elsewhere", "web", "web-1")
	h.move(a, "camera-2") // what is an input, so that the others are known to have passed
	eventually(t, "camera-2 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-2" })
	if got := see(b, func() int { return len(b.told) }); got != told+1 {
		t.Errorf("told %d times, want once for the one input that changed", got-told)
	}
}

func TestAnUnchangedReportWritesNothingAndARepeatedOneIsNotAccepted(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	eventually(t, "the member serves", func() bool {
		_, err := b.conn(m.url).Hello(t.Context(), hello(1))
		return err == nil
	})
	c := b.conn(m.url)
	r := wire.Report{Session: 1, Sequence: 1, Statuses: []wire.Status{{UID: a.Metadata.UID, Phase: "Running", Ready: true}},
		Journal: []wire.JournalRecord{{Sequence: 7, Count: 1, Reason: "Started", UID: a.Metadata.UID, First: 1, Last: 1}}}
	reply, err := c.Report(t.Context(), r)
	check(t, err)
	if !reply.Accepted || reply.Acked != 7 {
		t.Errorf("reply %+v; want accepted, 7 acknowledged", reply)
	}
	if n := h.count(api.KindEvent); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	before := h.backend.Revision()
	r.Sequence = 2
	reply, err = c.Report(t.Context(), r)
	check(t, err)
	if !reply.Accepted || h.backend.Revision() != before {
		t.Errorf("reply %+v, revision %d to %d; want accepted without a write", reply, before, h.backend.Revision())
	}
	for _, seq := range []uint64{1, 2} {
		r.Sequence, r.Statuses[0].Ready = seq, false
		reply, err = c.Report(t.Context(), r)
		check(t, err)
		if reply.Accepted || h.backend.Revision() != before {
			t.Errorf("sequence %d again: %+v, revision %d to %d; want neither", seq, reply, before, h.backend.Revision())
		}
	}
}

func TestAnEmptyHubOfTheSameCARemovesNothing(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	stop := b.connect(m.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	stop()
	empty := newHub(t, 0, h).member(memberOptions{})
	told := see(b, func() int { return len(b.told) })
	b.connect(empty.url)
	b.awaitError("not known to this hub")
	if got := see(b, func() int { return len(b.told) }); got != told || b.runsRevision(a.Metadata.UID) != "camera-1" {
		t.Errorf("told %d more times, runs %q; want nothing changed", got-told, b.runsRevision(a.Metadata.UID))
	}
}

func TestAnotherClustersWordIsRefused(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	h.assign("pi-01", "camera", "camera-1")
	stranger := newHub(t, 0, nil).member(memberOptions{})
	stop := b.connect(stranger.url)
	b.awaitError("certificate")
	stop()
	// A member that names another cluster, though its certificate is of the same CA.
	liar := h.member(memberOptions{clusterID: "other"})
	b.connect(liar.url)
	b.awaitError("of cluster other")
	if n := see(b, func() int { return len(b.told) }); n != 0 {
		t.Errorf("the agent was told %d times; want never", n)
	}
}

func TestAMemberThatIsBehindSendsTheDeviceToAnother(t *testing.T) {
	h := newHub(t, 0, nil)
	g := newGate()
	lagging := h.member(memberOptions{gate: g})
	b := enrolled(t, h, lagging, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	stop := b.connect(lagging.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	stop()
	g.shut()
	ahead := h.member(memberOptions{})
	h.move(a, "camera-2")
	stop = b.connect(ahead.url)
	eventually(t, "camera-2 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-2" })
	stop()
	told := see(b, func() int { return len(b.told) })
	stop = b.connect(lagging.url)
	b.awaitError("is behind device pi-01")
	if got := see(b, func() int { return len(b.told) }); got != told {
		t.Errorf("told %d times by a member that is behind; want never", got-told)
	}
	stop()
	b.connect(lagging.url, ahead.url)
	h.move(a, "camera-3")
	eventually(t, "camera-3 runs, by way of the other member", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-3" })
	g.lift()
}

func TestANewerSessionTakesOverAndTheOlderOneSaysSo(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	c := b.conn(m.url)
	eventually(t, "a session", func() bool {
		_, err := c.Hello(t.Context(), hello(4))
		return err == nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Poll(t.Context(), wire.Poll{Session: 4})
		ended <- err
	}()
	eventually(t, "the poll is held", func() bool { _, ok := m.gateway.Contacts().Last("pi-01"); return ok })
	_, err := b.conn(m.url).Hello(t.Context(), hello(5))
	check(t, err)
	if err := <-ended; !fault.Is(err, fault.Conflict) {
		t.Errorf("the older poll ended with %v, want Conflict", err)
	}
	if _, err := c.Report(t.Context(), wire.Report{Session: 4, Sequence: 1}); !fault.Is(err, fault.Conflict) {
		t.Errorf("report of the older session: %v, want Conflict", err)
	}
	reply, err := c.Hello(t.Context(), hello(4))
	check(t, err)
	if reply.Session != 5 {
		t.Errorf("hello of the older session: the hub knows session %d, want 5", reply.Session)
	}
	// A link that lost its count numbers anew above what the hub knows.
	b.connect(m.url)
	eventually(t, "the link is up", b.connected)
	if n := see(b, func() uint64 { return b.session }); n < 6 {
		t.Errorf("session %d, want above 5", n)
	}
}

func TestAHalfOpenConnectionIsFoundAndAnotherMemberTaken(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{hold: time.Second})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	p := newProxy(t, m.url)
	b.connect(p.url, m.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	through := see(b, func() string { return b.state.Endpoint })
	if through != p.url {
		t.Fatalf("connected through %s, want the proxy %s", through, p.url)
	}
	p.freeze()
	h.move(a, "camera-2")
	eventually(t, "camera-2 runs, by way of the other endpoint", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-2" })
}

func TestLogsComeFromTheDeviceAndEndOnBothSides(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	if _, err := m.gateway.Logs(t.Context(), "pi-01", wire.Logs{UID: "u"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("logs of a device without a link: %v, want Unavailable", err)
	}
	ended := make(chan error, 4)
	source := make(chan io.Reader, 4)
	b.onLogs = func(c wire.Command) { ended <- b.link.OpenStream(context.WithoutCancel(t.Context()), c.ID, <-source) }
	b.connect(m.url)
	eventually(t, "the link is up", b.connected)

	source <- strings.NewReader("line 1\nline 2\n")
	logs, err := openLogs(t, m)
	check(t, err)
	if got := readAll(t, logs); got != "line 1\nline 2\n" {
		t.Errorf("logs %q", got)
	}
	check(t, logs.Close())
	if err := <-ended; err != nil {
		t.Errorf("the device's side ended with %v", err)
	}

	r, w := io.Pipe() // a container that writes nothing for long
	defer func() { _ = w.Close() }()
	source <- r
	logs, err = openLogs(t, m)
	check(t, err)
	check(t, logs.Close())
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the device's side ended without an error; the reader went away")
		}
	case <-time.After(10 * time.Second):
		t.Error("the device goes on sending after the reader went away")
	}
	if err := b.conn(m.url).Stream(t.Context(), "nobody-asked", strings.NewReader("x")); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stream nobody asked for: %v, want NotFound", err)
	}
}

// openLogs asks until the device polls.
func openLogs(t *testing.T, m *member) (logs io.ReadCloser, err error) {
	t.Helper()
	eventually(t, "the device polls", func() bool {
		logs, err = m.gateway.Logs(t.Context(), "pi-01", wire.Logs{UID: "u"})
		return !fault.Is(err, fault.Unavailable)
	})
	return logs, err
}

func TestWhatCannotBeResolvedIsShownAndTheDeviceKeepsWhatItHas(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1", api.EnvVar{Name: "X", ValueFrom: &api.EnvVarSource{ConfigMapKeyRef: &api.KeySelector{Name: "cm", Key: "k"}}})
	b.connect(m.url)
	eventually(t, "the condition says so", func() bool {
		c := api.FindCondition(h.assignment(a).Status.Conditions, "ConfigMissing")
		return c != nil && strings.Contains(c.Message, "ConfigMap default/cm does not exist")
	})
	if got := b.runsRevision(a.Metadata.UID); got != "" {
		t.Errorf("runs %q, want nothing", got)
	}
	_, err := h.admin.Create(t.Context(), &api.ConfigMap{TypeMeta: api.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"k": "v"}}, client.WriteOptions{})
	check(t, err)
	eventually(t, "it runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	eventually(t, "the condition is gone", func() bool {
		return api.FindCondition(h.assignment(a).Status.Conditions, "ConfigMissing") == nil
	})
}

func TestAClockInThePastStopsNothing(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	a := h.assign("pi-01", "camera", "camera-1")
	b := newBoard(t, "pi-01")
	b.now = func() time.Time { return time.Unix(86400, 0) }
	check(t, b.enrollAt(t.Context(), h.token("t", nil), nil, m.url))
	b.connect(m.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	if c := h.device("pi-01").Status.Clock; c.Trusted || c.Offset.Duration > -time.Hour {
		t.Errorf("clock %+v; want far behind and not trusted", c)
	}
}

func TestAHelloThatTellsNothingNewWritesNothing(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	say := func() error {
		_, err := b.conn(m.url).Hello(t.Context(), wire.Hello{Capability: 1, AgentVersion: "test", BootID: "boot", Session: 3, WallTime: time.Now().UnixNano(),
			Facts: wire.Facts{Platform: "linux/arm64/v8", CPUs: 4, Memory: 1 << 30, Storage: 29_999_999_999}})
		return err
	}
	eventually(t, "the member serves", func() bool { return say() == nil })
	d := h.device("pi-01")
	if d.Status.Identity.Session != 3 || d.Status.Facts.Platform != "linux/arm64/v8" || len(d.Status.Capacity) != 3 {
		t.Errorf("status %+v; want session, facts and capacity of the hello", d.Status)
	}
	before := h.backend.Revision()
	other := h.member(memberOptions{})
	eventually(t, "another member serves", func() bool {
		_, err := b.conn(other.url).Report(t.Context(), wire.Report{Session: 9, Sequence: 1})
		return fault.Is(err, fault.Conflict)
	})
	check(t, say())
	if got := h.backend.Revision(); got != before {
		t.Errorf("revision %d to %d; want no write", before, got)
	}
}

func TestAReportToAMemberThatIsBehindIsNotLost(t *testing.T) {
	h := newHub(t, 0, nil)
	g := newGate()
	lagging := h.member(memberOptions{gate: g})
	b := enrolled(t, h, lagging, "pi-01")
	eventually(t, "the lagging member serves", func() bool {
		_, err := b.conn(lagging.url).Hello(t.Context(), hello(1))
		return err == nil
	})
	g.shut()
	ahead := h.member(memberOptions{})
	a := h.assign("pi-01", "camera", "camera-1")
	stop := b.connect(ahead.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	eventually(t, "the hub knows", func() bool { return h.assignment(a).Status.Ready })
	stop()
	c := b.conn(lagging.url)
	held, hash := b.Held()
	m := hello(b.session)
	m.Held, m.BundleHash = held, hash
	_, err := c.Hello(t.Context(), m)
	check(t, err)
	r := wire.Report{Session: b.session, Sequence: 99, Held: held, BundleHash: hash, Statuses: []wire.Status{{UID: a.Metadata.UID, Phase: "Failed"}}}
	if _, err := c.Report(t.Context(), r); !fault.Is(err, fault.Ahead) {
		t.Errorf("report: %v, want Ahead", err)
	}
	g.lift()
	eventually(t, "the report is taken once the member has caught up", func() bool {
		reply, err := c.Report(t.Context(), r)
		return err == nil && reply.Accepted
	})
	if got := h.assignment(a).Status.Phase; got != "Failed" {
		t.Errorf("phase %s, want what the report said", got)
	}
}

func TestMembersTellEachOtherOfContacts(t *testing.T) {
	h := newHub(t, 0, nil)
	m, other := h.member(memberOptions{}), h.member(memberOptions{})
	pair, err := h.authority.ServerCertificate("h1", nil)
	check(t, err)
	roots := h.authority.Roots()
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: wire.HubServerName, Certificates: []tls.Certificate{pair}}}
	defer tr.CloseIdleConnections()
	p := &httpgw.Pusher{Contacts: m.gateway.Contacts(), Peers: func() []string { return []string{other.url} }, Client: &http.Client{Transport: tr}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	m.gateway.Contacts().Touch("pi-01", 1)
	eventually(t, "the other member knows", func() bool { _, ok := other.gateway.Contacts().Last("pi-01"); return ok })

	b := enrolled(t, h, m, "pi-02")
	cert, err := b.keeper.Certificate()
	check(t, err)
	dtr := tr.Clone()
	dtr.TLSClientConfig.Certificates = []tls.Certificate{*cert}
	defer dtr.CloseIdleConnections()
	rs, err := (&http.Client{Transport: dtr}).Post(other.url+httpgw.PathContacts, "application/cbor", strings.NewReader(""))
	check(t, err)
	check(t, rs.Body.Close())
	if rs.StatusCode != http.StatusForbidden {
		t.Errorf("a device's word on contacts: %s, want 403", rs.Status)
	}
}

func TestAMemberThatStopsSendsItsDevicesAwayAtOnce(t *testing.T) {
	h := newHub(t, 0, nil)
	m, other := h.member(memberOptions{}), h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	b.connect(m.url, other.url)
	eventually(t, "the hub knows that it is ready", func() bool { return h.assignment(a).Status.Ready })
	first := see(b, func() string { return b.state.Endpoint })
	stop := m.stop
	if first == other.url {
		stop = other.stop
	}
	stop()
	eventually(t, "the other member is taken", func() bool {
		return see(b, func() bool { return b.state.Connected && b.state.Endpoint != first })
	})
	h.move(a, "camera-2")
	eventually(t, "camera-2 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-2" })
}

func TestADeviceAheadOfTheHubsHistoryIsLeftAloneAndShown(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	a := h.assign("pi-01", "camera", "camera-1")
	e := h.backend.Epoch()
	b.held = wire.Position{ClusterID: h.authority.ClusterID(), Epoch: e.Number, EpochID: "a history that a forced reset ended", Revision: uint64(h.backend.Revision()) + 100}
	stop := b.connect(m.url)
	eventually(t, "the condition says so", func() bool {
		return api.ConditionIs(h.device("pi-01").Status.Conditions, "AheadOfHub", api.True)
	})
	if n := see(b, func() int { return len(b.told) }); n != 0 {
		t.Errorf("told %d times, want never", n)
	}
	stop()
	b.held = wire.Position{} // an operator made it follow this hub
	b.connect(m.url)
	eventually(t, "camera-1 runs", func() bool { return b.runsRevision(a.Metadata.UID) == "camera-1" })
	eventually(t, "the condition is gone", func() bool {
		return api.FindCondition(h.device("pi-01").Status.Conditions, "AheadOfHub") == nil
	})
}
