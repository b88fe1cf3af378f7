package links

import (
	"context"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/gateway"
	"github.com/drover-fleet/drover/hub/tokens"
)

// authority makes tokens as a hub member does.
type authority struct{ *tokens.Authority }

func (h *hub) tokens() gateway.TokenMaker {
	h.t.Helper()
	a, err := tokens.New(tokens.Config{Member: "h1", Backend: h.backend, Sealer: h.sealer, Client: h.admin, Now: h.now,
		Cluster: func() (string, bool) { return h.authority.ClusterID(), true }})
	check(h.t, err)
	h.issuer = a
	return authority{a}
}

func (a authority) AccountToken(ctx context.Context, c gateway.TokenClaim) (gateway.MadeToken, error) {
	t, err := a.Issue(ctx, tokens.Request{Namespace: c.Namespace, Account: c.Account, Audiences: []string{c.Audience}, Life: c.Life,
		Bound: &tokens.Bound{Kind: api.KindAssignment, Name: c.Assignment, UID: c.UID}})
	return gateway.MadeToken{Text: t.Text, Life: t.Expires.Sub(t.Made)}, err
}

func (h *hub) account(name string) {
	h.t.Helper()
	_, err := h.admin.Create(h.t.Context(), &api.ServiceAccount{TypeMeta: api.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: name}}, client.WriteOptions{})
	check(h.t, err)
}

// assignWithTokens binds a copy whose template asks for tokens: for the hub and for a vault.
func (h *hub) assignWithTokens(device, workload string) *api.Assignment {
	h.t.Helper()
	life := int64(600)
	spec := api.WorkloadRevisionSpec{Workload: workload, Revision: 1, Hash: "h" + workload, Images: map[string]string{"r.example/i:1": image}}
	spec.Template.Spec = api.PodSpec{ServiceAccountName: "robot",
		Containers: []api.Container{{Name: "main", Image: "r.example/i:1", VolumeMounts: []api.VolumeMount{{Name: "ids", MountPath: "/ids"}}}},
		Volumes: []api.Volume{{Name: "ids", Projected: &api.ProjectedVolume{Sources: []api.VolumeProjection{
			{ServiceAccountToken: &api.TokenProjection{Path: "hub"}},
			{ServiceAccountToken: &api.TokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: &life}},
		}}}},
	}
	_, err := h.admin.Create(h.t.Context(), &api.WorkloadRevision{TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "WorkloadRevision"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: workload + "-t"}, Spec: spec}, client.WriteOptions{})
	check(h.t, err)
	o, err := h.admin.Create(h.t.Context(), &api.Assignment{TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "Assignment"},
		Metadata: api.ObjectMeta{Namespace: "default", Name: workload + "." + device},
		Spec:     api.AssignmentSpec{Workload: workload, Revision: workload + "-t", Device: device}}, client.WriteOptions{})
	check(h.t, err)
	return o.(*api.Assignment)
}

func askFor(a *api.Assignment, session uint64) wire.TokenRequest {
	return wire.TokenRequest{Session: session, UID: a.Metadata.UID, Namespace: "default", Name: a.Metadata.Name, Account: "robot",
		Volume: "ids", Path: "hub", Audience: api.HubAudience, LifeSecs: 3600}
}

func (b *board) open(q wire.TokenRequest, r wire.TokenReply) string {
	b.t.Helper()
	ref, err := q.Ref()
	check(b.t, err)
	if r.Token.Ref.Name != ref.Name || !r.Token.Ref.ID.Equal(ref.ID) {
		b.t.Errorf("the answer is for %v, want %v", r.Token.Ref, ref)
	}
	plain, err := wire.Unseal(b.keeper.Key(), r.Token)
	check(b.t, err)
	return string(plain)
}

// A device gets the tokens that its assignments ask for, and no other.
func TestADeviceGetsOnlyTheTokensThatItsAssignmentsAskFor(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b, other := enrolled(t, h, m, "pi-01"), enrolled(t, h, m, "pi-02")
	h.account("robot")
	h.account("admin")
	mine, theirs := h.assignWithTokens("pi-01", "cam"), h.assignWithTokens("pi-02", "door")
	b.connect(m.url)
	eventually(t, "cam runs", func() bool { return b.runsRevision(mine.Metadata.UID) == "cam-t" })
	q := askFor(mine, 0)
	reply, err := b.link.Token(t.Context(), q)
	check(t, err)
	id, _, err := h.issuer.Verify(t.Context(), b.open(q, reply), nil)
	check(t, err)
	if got := id.Extra[tokens.ExtraAssignmentUID]; id.Name != "system:serviceaccount:default:robot" || len(got) != 1 || got[0] != mine.Metadata.UID {
		t.Errorf("token of %+v, want of robot, bound to %s", id, mine.Metadata.UID)
	}
	if reply.LifeSecs != 3600 {
		t.Errorf("life %d s, want an hour", reply.LifeSecs)
	}

	session := see(b, func() uint64 { return b.session })
	for name, tc := range map[string]struct {
		change func(*wire.TokenRequest)
		want   fault.Class
	}{
		"what it may have":             {func(*wire.TokenRequest) {}, ""},
		"the other file":               {func(q *wire.TokenRequest) { q.Path, q.Audience, q.LifeSecs = "vault", "vault", 600 }, ""},
		"another's assignment":         {func(q *wire.TokenRequest) { q.UID, q.Name = theirs.Metadata.UID, theirs.Metadata.Name }, fault.Forbidden},
		"another's uid, its own name":  {func(q *wire.TokenRequest) { q.UID = theirs.Metadata.UID }, fault.Forbidden},
		"another's name, its own uid":  {func(q *wire.TokenRequest) { q.Name = theirs.Metadata.Name }, fault.Forbidden},
		"none there":                   {func(q *wire.TokenRequest) { q.Name = "nobody" }, fault.Forbidden},
		"another account":              {func(q *wire.TokenRequest) { q.Account = "admin" }, fault.Forbidden},
		"another audience":             {func(q *wire.TokenRequest) { q.Audience = "vault" }, fault.Forbidden},
		"another path":                 {func(q *wire.TokenRequest) { q.Path = "vault" }, fault.Forbidden},
		"another volume":               {func(q *wire.TokenRequest) { q.Volume = "data" }, fault.Forbidden},
		"a longer life":                {func(q *wire.TokenRequest) { q.LifeSecs = 7200 }, fault.Forbidden},
		"a life beyond all":            {func(q *wire.TokenRequest) { q.LifeSecs = 1 << 30 }, fault.Invalid},
		"a path out of the volume":     {func(q *wire.TokenRequest) { q.Path = "../hub" }, fault.Invalid},
		"an older session":             {func(q *wire.TokenRequest) { q.Session-- }, fault.Conflict},
		"a session that was not begun": {func(q *wire.TokenRequest) { q.Session++ }, fault.Conflict},
		"another namespace":            {func(q *wire.TokenRequest) { q.Namespace = "kube-system" }, fault.Forbidden},
	} {
		q := askFor(mine, max(session, 2))
		q.Session = session
		tc.change(&q)
		if q.Session == 0 {
			continue // no session number at all is no message
		}
		_, err := b.conn(m.url).Token(t.Context(), q)
		if tc.want == "" && err != nil || tc.want != "" && !fault.Is(err, tc.want) {
			t.Errorf("%s: got %v, want class %q", name, err, tc.want)
		}
	}
	q = askFor(mine, 1)
	if _, err := other.conn(m.url).Hello(t.Context(), hello(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.conn(m.url).Token(t.Context(), q); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another device: got %v, want Forbidden", err)
	}

	check(t, h.admin.Delete(t.Context(), api.Ref{Kind: api.KindServiceAccount, Namespace: "default", Name: "robot"}, client.DeleteOptions{}))
	if _, err := b.link.Token(t.Context(), askFor(mine, 0)); !fault.Is(err, fault.NotFound) || fault.StatusOf(err).Message != `serviceaccounts "robot" not found` {
		t.Errorf("without the account: got %v, want NotFound that names it", err)
	}
}

// A deleted assignment ends its token and gives no new one, whatever this member has seen of it.
func TestADeletedAssignmentEndsItsTokenAtOnce(t *testing.T) {
	h := newHub(t, 0, nil)
	g := newGate()
	m := h.member(memberOptions{gate: g})
	b := enrolled(t, h, m, "pi-01")
	h.account("robot")
	a := h.assignWithTokens("pi-01", "cam")
	b.connect(m.url)
	eventually(t, "cam runs", func() bool { return b.runsRevision(a.Metadata.UID) == "cam-t" })
	q := askFor(a, 0)
	reply, err := b.link.Token(t.Context(), q)
	check(t, err)
	text := b.open(q, reply)
	g.shut()
	defer g.lift()
	check(t, h.admin.Delete(t.Context(), api.Ref{Kind: api.KindAssignment, Namespace: "default", Name: a.Metadata.Name}, client.DeleteOptions{}))
	if _, _, err := h.issuer.Verify(t.Context(), text, nil); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("its token: got %v, want Unauthorized", err)
	}
	if _, err := b.link.Token(t.Context(), q); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another token: got %v, want Forbidden", err)
	}
}

// A device that asks without end is told to slow down, and others are not held up.
func TestADeviceThatAsksWithoutEndIsToldToSlowDown(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b, other := enrolled(t, h, m, "pi-01"), enrolled(t, h, m, "pi-02")
	h.account("robot")
	a, theirs := h.assignWithTokens("pi-01", "cam"), h.assignWithTokens("pi-02", "door")
	b.connect(m.url)
	other.connect(m.url)
	eventually(t, "both run", func() bool {
		return b.runsRevision(a.Metadata.UID) == "cam-t" && other.runsRevision(theirs.Metadata.UID) == "door-t"
	})
	q := askFor(a, 0)
	q.Audience = "not asked for"
	refused := 0
	for range 400 {
		if _, err := b.link.Token(t.Context(), q); fault.Is(err, fault.TooManyRequests) {
			refused++
			if after := fault.RetryAfter(err); after <= 0 || after > 2*time.Second {
				t.Fatalf("told to wait %s, want up to a second or so", after)
			}
		}
	}
	if refused == 0 {
		t.Error("400 requests in a row were all judged; want most of them put off")
	}
	if _, err := other.link.Token(t.Context(), askFor(theirs, 0)); err != nil {
		t.Errorf("another device: got %v, want its token", err)
	}
}
