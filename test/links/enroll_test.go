package links

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	agentenroll "github.com/drover-fleet/drover/agent/enroll"
	"github.com/drover-fleet/drover/agent/link/httplink"
	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/enroll"

	mrand "math/rand/v2"
)

// ask enrolls once with the board's key over a connection that trusts the hub.
func ask(t *testing.T, h *hub, m *member, b *board, token wire.Secret) wire.EnrollReply {
	t.Helper()
	tr := httplink.Transport{Identity: httplink.Identity{Roots: httplink.Pinned(h.authority.Roots)}}
	c, err := tr.Dial(m.url)
	check(t, err)
	defer c.Close()
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, b.keeper.Key())
	check(t, err)
	r, err := c.Enroll(t.Context(), wire.EnrollRequest{Token: token, Name: b.name, CSR: csr, Facts: wire.Facts{Platform: "linux/arm64/v8"}})
	check(t, err)
	return r
}

func (h *hub) used(token string) int32 {
	h.t.Helper()
	o, err := h.admin.Get(h.t.Context(), api.Ref{Kind: api.KindJoinToken, Name: token}, client.GetOptions{})
	check(h.t, err)
	return o.(*api.JoinToken).Status.Used
}

// request is the one enrollment request for a device name and phase.
func (h *hub) request(device string) *api.EnrollmentRequest {
	h.t.Helper()
	l, err := h.admin.List(h.t.Context(), api.KindEnrollmentRequest, client.ListOptions{})
	check(h.t, err)
	var found *api.EnrollmentRequest
	for _, o := range l.Items {
		if r := o.(*api.EnrollmentRequest); r.Spec.Device == device && r.Status.Phase != enroll.PhaseApproved {
			found = r
		}
	}
	if found == nil {
		h.t.Fatalf("no open enrollment request of %s", device)
	}
	return found
}

// operator changes a request as a person would.
func (h *hub) operator(r *api.EnrollmentRequest, change func(*api.EnrollmentRequestSpec)) {
	h.t.Helper()
	n := api.Copy(r)
	n.Metadata.ResourceVersion = ""
	change(&n.Spec)
	_, err := h.admin.Update(h.t.Context(), n, client.WriteOptions{})
	check(h.t, err)
}

func TestEveryRefusalHasAPlainReasonAndATimeToComeBack(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	good := h.token("good", nil)
	parts := strings.Split(string(good), ".")
	parts[len(parts)-1] = base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	h.token("once", func(s *api.JoinTokenSpec) { s.Uses = 1 })
	once := h.token("once-more", func(s *api.JoinTokenSpec) { s.Uses = 1 })
	if r := ask(t, h, m, newBoard(t, "first"), once); r.State != wire.EnrollApproved {
		t.Fatalf("first use: %+v", r)
	}
	for _, c := range []struct {
		name, device string
		token        wire.Secret
		want         string
	}{
		{"no token", "pi-01", "", "a join token is needed"},
		{"not a token", "pi-01", "hello", "not a join token"},
		{"unknown name", "pi-01", wire.Secret(strings.Replace(string(good), ".good.", ".gone.", 1)), "not known to the hub"},
		{"wrong secret", "pi-01", wire.Secret(strings.Join(parts, ".")), "not known to the hub"},
		{"expired", "pi-01", h.token("late", func(s *api.JoinTokenSpec) { s.Expires = api.TimeOf(time.Now().Add(-time.Minute)) }), "expired at"},
		{"used up", "pi-01", once, "is used up"},
		{"for a hub", "pi-01", h.token("hubs", func(s *api.JoinTokenSpec) { s.For = "hub" }), "is for a hub, not for a device"},
		{"a name that is none", "Pi.-1", good, "device name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(t, h, m, newBoard(t, c.device), c.token)
			if r.State != wire.EnrollDenied || !strings.Contains(r.Message, c.want) || r.RetrySecs == 0 {
				t.Errorf("reply %+v; want denied with %q and a time to come back", r, c.want)
			}
		})
	}
	if n := h.used("good"); n != 0 {
		t.Errorf("refusals took %d uses", n)
	}
}

func TestEnrollingAgainWithTheSameKeyIsTheSameDeviceAndOneUse(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	token := h.token("t", func(s *api.JoinTokenSpec) { s.Labels = map[string]string{"site": "north"} })
	b := newBoard(t, "pi-01")
	for range 3 {
		if r := ask(t, h, m, b, token); r.State != wire.EnrollApproved {
			t.Fatalf("reply %+v, want approved", r)
		}
	}
	if n := h.used("t"); n != 1 {
		t.Errorf("%d uses, want 1", n)
	}
	d := h.device("pi-01")
	if d.Metadata.Labels["site"] != "north" || d.Metadata.Labels[api.LabelArch] != "arm64" || d.Status.Identity.Fingerprint == "" {
		t.Errorf("device %+v, identity %+v; want labels of token and facts, and a fingerprint", d.Metadata.Labels, d.Status.Identity)
	}
	other := newBoard(t, "pi-99")
	other.keeper = b.keeper
	if r := ask(t, h, m, other, ""); r.State != wire.EnrollDenied {
		t.Errorf("the key under another name without a token: %+v, want denied", r)
	}
}

func TestATokenIsNeverGoodForMoreDevicesThanItSays(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	token := h.token("t", func(s *api.JoinTokenSpec) { s.Uses = 3 })
	var boards []*board
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		boards = append(boards, newBoard(t, n))
	}
	replies := make([]wire.EnrollReply, len(boards))
	var wg sync.WaitGroup
	for i, b := range boards {
		wg.Go(func() { replies[i] = ask(t, h, m, b, token) })
	}
	wg.Wait()
	approved := 0
	for _, r := range replies {
		if r.State == wire.EnrollApproved {
			approved++
		}
	}
	if approved != 3 || h.used("t") != 3 || h.count(api.KindDevice) != 3 {
		t.Errorf("%d approved, %d uses, %d devices; want 3 of each", approved, h.used("t"), h.count(api.KindDevice))
	}
}

func TestATokenThatAsksForApprovalWaitsForAPersonAndDenialIsSticky(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	token := h.token("t", func(s *api.JoinTokenSpec) { s.Approve = true })
	b, denied := newBoard(t, "pi-01"), newBoard(t, "pi-02")
	for _, x := range []*board{b, denied} {
		if r := ask(t, h, m, x, token); r.State != wire.EnrollPending || !strings.Contains(r.Message, "waiting for an operator") {
			t.Fatalf("reply %+v, want pending", r)
		}
	}
	if n := h.count(api.KindDevice); n != 0 {
		t.Errorf("%d devices before anybody approved", n)
	}
	h.operator(h.request("pi-01"), func(s *api.EnrollmentRequestSpec) { s.Approved = true })
	h.operator(h.request("pi-02"), func(s *api.EnrollmentRequestSpec) { s.Denied = true })
	if r := ask(t, h, m, b, token); r.State != wire.EnrollApproved {
		t.Errorf("after approval: %+v", r)
	}
	for _, tok := range []wire.Secret{token, h.token("another", nil)} {
		if r := ask(t, h, m, denied, tok); r.State != wire.EnrollDenied || r.RetrySecs < 3600 {
			t.Errorf("after denial: %+v; want denied, to come back in an hour", r)
		}
	}
}

func TestANameBelongsToOneKeyUntilAPersonLetsAnotherReplaceIt(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	old := enrolled(t, h, m, "pi-07")
	a := h.assign("pi-07", "camera", "camera-1")
	stop := old.connect(m.url)
	eventually(t, "camera-1 runs", func() bool { return old.runsRevision(a.Metadata.UID) == "camera-1" })
	flashed := newBoard(t, "pi-07")
	token := h.token("again", nil)
	if r := ask(t, h, m, flashed, token); r.State != wire.EnrollPending || !strings.Contains(r.Message, "exists with another key") {
		t.Fatalf("reply %+v, want pending for a person's word", r)
	}
	if p := h.request("pi-07").Status.Phase; p != enroll.PhaseConflict {
		t.Errorf("phase %s, want Conflict", p)
	}
	h.operator(h.request("pi-07"), func(s *api.EnrollmentRequestSpec) { s.Approved, s.Replace = true, true })
	check(t, flashed.enrollAt(t.Context(), token, nil, m.url))
	old.awaitError("was replaced or enrolled again")
	stop()
	flashed.connect(m.url)
	eventually(t, "the new board runs what the name should run", func() bool { return flashed.runsRevision(a.Metadata.UID) == "camera-1" })
	// The old key has to ask a person again, whatever was approved before.
	if r := ask(t, h, m, old, h.token("third", nil)); r.State != wire.EnrollPending {
		t.Errorf("the old key: %+v, want pending", r)
	}
}

func TestDeletingADeviceFreesItsNameAtOnce(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := newBoard(t, "pi-01")
	if r := ask(t, h, m, b, h.token("t", nil)); r.State != wire.EnrollApproved {
		t.Fatalf("%+v", r)
	}
	check(t, h.admin.Delete(t.Context(), api.Ref{Kind: api.KindDevice, Name: "pi-01"}, client.DeleteOptions{}))
	if r := ask(t, h, m, b, ""); r.State != wire.EnrollDenied {
		t.Errorf("the deleted device without a token: %+v, want denied", r)
	}
	if r := ask(t, h, m, newBoard(t, "pi-01"), h.token("t2", nil)); r.State != wire.EnrollApproved {
		t.Errorf("another board under the name: %+v, want approved", r)
	}
}

func TestABoardAsksOnlyTheHubItsTokenNames(t *testing.T) {
	h, stranger := newHub(t, 0, nil), newHub(t, 0, nil)
	token := h.token("t", nil)
	sm := stranger.member(memberOptions{})
	b := newBoard(t, "pi-01")
	ctx, cancel := context.WithCancel(t.Context())
	var said string
	err := b.enrollAt(ctx, token, func(reason string) { said = reason; cancel() }, sm.url)
	if err == nil || !strings.Contains(said, "not the hub that the join token is for") {
		t.Errorf("enrolled at a stranger: %v, said %q", err, said)
	}
	if n := stranger.count(api.KindEnrollmentRequest); n != 0 {
		t.Errorf("the stranger got %d requests, and with them the token's secret", n)
	}
}

// aged is a board whose certificate was signed so long ago.
func aged(t *testing.T, ago time.Duration) (*hub, *board, string) {
	t.Helper()
	h := newHub(t, -ago, nil)
	m := h.member(memberOptions{})
	b := newBoard(t, "pi-01")
	b.now = h.now
	check(t, b.enrollAt(t.Context(), h.token("t", nil), nil, m.url))
	h.clock.Store(0)
	return h, b, h.member(memberOptions{}).url
}

func TestACertificateIsRenewedByTheKeyBeforeAndAfterItsEnd(t *testing.T) {
	for name, ago := range map[string]time.Duration{"two thirds over": 300 * 24 * time.Hour, "ended": 400 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h, b, url := aged(t, ago)
			before, _ := b.keeper.Identity()
			e, err := agentenroll.New(agentenroll.Config{Keeper: b.keeper, Name: b.name, Hubs: []string{url}, Random: mrand.Int64N, Now: time.Now,
				Token: func() (wire.Secret, error) { return "", nil }, Facts: func() wire.Facts { return wire.Facts{} }})
			check(t, err)
			check(t, b.keeper.Learn([]string{url}))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = e.Run(ctx) })
			defer wg.Wait()
			defer cancel()
			eventually(t, "a new certificate", func() bool {
				now, _ := b.keeper.Identity()
				return !slices.Equal(now.Certificate, before.Certificate)
			})
			cert, err := b.keeper.Certificate()
			check(t, err)
			if left := time.Until(cert.Leaf.NotAfter); left < 364*24*time.Hour {
				t.Errorf("the new certificate ends in %s, want a year", left)
			}
			if d := h.device("pi-01"); !d.Status.Identity.CertificateNotAfter.Equal(cert.Leaf.NotAfter) {
				t.Errorf("the hub shows the end %v, want %v", d.Status.Identity.CertificateNotAfter, cert.Leaf.NotAfter)
			}
		})
	}
}

func TestAKeyLongBeyondItsCertificateNeedsATokenAgain(t *testing.T) {
	h := newHub(t, -800*24*time.Hour, nil)
	b := newBoard(t, "pi-01")
	b.now = h.now
	check(t, b.enrollAt(t.Context(), h.token("t", nil), nil, h.member(memberOptions{}).url))
	h.clock.Store(0)
	m := h.member(memberOptions{})
	if r := ask(t, h, m, b, ""); r.State != wire.EnrollDenied || !strings.Contains(r.Message, "token is needed") {
		t.Errorf("reply %+v, want denied", r)
	}
	if r := ask(t, h, m, b, h.token("t2", nil)); r.State != wire.EnrollApproved {
		t.Errorf("with a token: %+v, want approved", r)
	}
}

func TestTheCAIsMadeOnceAndItsKeyIsNotInTheStoreInClear(t *testing.T) {
	h := newHub(t, 0, nil)
	again, err := enroll.Open(t.Context(), enroll.Options{Records: h.records, Sealer: h.sealer})
	check(t, err)
	if again.ClusterID() != h.authority.ClusterID() || !slices.Equal(again.CA(), h.authority.CA()) {
		t.Error("another member has another authority")
	}
	data, _, err := h.records.Read(t.Context(), "~ca")
	check(t, err)
	for _, der := range []string{"BEGIN", "\x30\x77\x02\x01\x01\x04\x20"} { // PEM, and how a P-256 key begins in DER
		if strings.Contains(string(data), der) {
			t.Errorf("the record has %q: a key in clear", der)
		}
	}
	if _, err := enroll.Open(t.Context(), enroll.Options{Records: newHub(t, 0, nil).records, Sealer: h.sealer, Now: func() time.Time { return time.Unix(0, 0) }, Built: time.Unix(1e9, 0)}); err != nil {
		t.Errorf("an authority that exists is read whatever the clock says: %v", err)
	}
}

func TestAHubMemberJoinsByItsOwnTokenOnly(t *testing.T) {
	h := newHub(t, 0, nil)
	var added []string
	en, err := enroll.New(enroll.Config{Client: h.admin, Authority: h.authority, Records: h.records, SealingKey: func() []byte { return []byte("k") },
		AddMember: func(_ context.Context, m enroll.Member) ([]enroll.Member, error) {
			added = append(added, m.Name)
			return []enroll.Member{{Name: "h1", ID: 1}, {Name: m.Name, ID: 2}}, nil
		}})
	check(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check(t, err)
	q := enroll.JoinRequest{CSR: csr, Hosts: []string{"10.0.0.2", "h2.example"}, Member: enroll.Member{Name: "h2", Peer: "10.0.0.2:1", URL: "https://10.0.0.2:2"}}
	q.Token = h.token("devices", nil)
	if _, err := en.Join(t.Context(), q); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with a device's token: %v, want Forbidden", err)
	}
	q.Token = h.token("hub", func(s *api.JoinTokenSpec) { s.For, s.Uses = "hub", 1 })
	for range 2 { // the answer may have been lost
		r, err := en.Join(t.Context(), q)
		check(t, err)
		cert, err := x509.ParseCertificate(r.Certificate)
		check(t, err)
		if cert.Subject.CommonName != "h2" || !slices.Equal(cert.Subject.Organization, []string{wire.OrgHubs}) || cert.VerifyHostname("10.0.0.2") != nil ||
			cert.VerifyHostname(wire.HubServerName) != nil || len(r.Members) != 2 || string(r.SealingKey) != "k" {
			t.Errorf("joined as %v for %v %v with %d members", cert.Subject, cert.DNSNames, cert.IPAddresses, len(r.Members))
		}
	}
	if n := h.used("hub"); n != 1 {
		t.Errorf("%d uses, want 1", n)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	q.CSR, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	check(t, err)
	if _, err := en.Join(t.Context(), q); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another key with the used-up token: %v, want Forbidden", err)
	}
	if len(added) != 2 {
		t.Errorf("members added: %v, want only by the two good requests", added)
	}
}

func TestOnlyDevicesReachTheDevicesPaths(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	admin, err := h.authority.AdminCertificate("alice")
	check(t, err)
	for name, c := range map[string]struct {
		cert func() (*tls.Certificate, error)
		want fault.Class
	}{"no certificate": {nil, fault.Unauthorized}, "a person's": {func() (*tls.Certificate, error) { return &admin, nil }, fault.Forbidden}} {
		tr := httplink.Transport{Identity: httplink.Identity{Certificate: c.cert, Roots: httplink.Pinned(h.authority.Roots)}}
		conn, err := tr.Dial(m.url)
		check(t, err)
		if _, err := conn.Hello(t.Context(), hello(1)); !fault.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		conn.Close()
	}
}

func TestTheKubeconfigHoldsACertificateOfItsOwner(t *testing.T) {
	h := newHub(t, 0, nil)
	pair, err := h.authority.AdminCertificate("alice")
	check(t, err)
	text, err := h.authority.Kubeconfig("alice", pair, []string{"https://10.0.0.1:6443", "https://10.0.0.2:6443"})
	check(t, err)
	_, rest, ok := strings.Cut(string(text), "client-certificate-data: ")
	if !ok {
		t.Fatalf("no certificate in\n%s", text)
	}
	line, _, _ := strings.Cut(rest, "\n")
	raw, err := base64.StdEncoding.DecodeString(line)
	check(t, err)
	block, _ := pem.Decode(raw)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: h.authority.Roots(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if cert.Subject.CommonName != "alice" || strings.Count(string(text), "https://10.0.0.2:6443") != 1 {
		t.Errorf("subject %v in\n%s", cert.Subject, text)
	}
}
