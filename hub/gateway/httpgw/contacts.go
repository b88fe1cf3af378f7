package httpgw

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/gateway"
)

// PathContacts takes another member's word on when devices were last heard of. Hub certificates only.
const PathContacts = "/drover/v1/internal/contacts"

const (
	pushEvery    = 2 * time.Second
	refreshEvery = 30 // pushes: the whole table, for members that were away
	pushTimeout  = 5 * time.Second
	maxPerPush   = 4000 // contacts in one message
)

type contactsMessage struct {
	Contacts []gateway.Contact `cbor:"1,keyasint"`
}

func (h *handler) contacts(w http.ResponseWriter, r *http.Request) {
	cert, err := clientCert(r, wire.OrgHubs)
	if err == nil && h.c.IsMember != nil && !h.c.IsMember(cert) {
		err = fault.Forbidden.Errorf("%s is no member of the hub any more", cert.Subject.CommonName)
	}
	if err == nil {
		var m contactsMessage
		if err = read(w, r, maxContacts, &m); err == nil {
			h.c.Contacts.Merge(m.Contacts)
			w.WriteHeader(http.StatusNoContent)
		}
	}
	h.fail(w, r, err)
}

// Pusher tells the other members of contacts with devices.
type Pusher struct {
	Contacts *gateway.Contacts
	// Peers are the base URLs of the other members, asked before each push.
	Peers func() []string
	// Client dials with this member's certificate and verifies theirs.
	Client *http.Client
}

// Run pushes until ctx ends: every two seconds what is new, now and then everything. A member that cannot be reached misses a push
// and is told everything by the next refresh; nothing is queued for it.
func (p *Pusher) Run(ctx context.Context) error {
	t := time.NewTicker(pushEvery)
	defer t.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			p.push(ctx, p.Contacts.Fresh(n%refreshEvery == 0))
		}
	}
}

func (p *Pusher) push(ctx context.Context, contacts []gateway.Contact) {
	for len(contacts) > 0 {
		part := contacts[:min(len(contacts), maxPerPush)]
		contacts = contacts[len(part):]
		data, err := wire.Encode(contactsMessage{part})
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		for _, peer := range p.Peers() {
			wg.Go(func() { _ = p.post(ctx, peer, data) }) // told again by the next refresh
		}
		wg.Wait()
	}
}

func (p *Pusher) post(ctx context.Context, peer string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, peer+PathContacts, bytes.NewReader(data))
	if err != nil {
		return err
	}
	rq.Header.Set("Content-Type", contentType)
	rs, err := p.Client.Do(rq)
	if err != nil {
		return err
	}
	defer func() { _ = rs.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(rs.Body, 64<<10)); err != nil {
		return err
	}
	if rs.StatusCode >= 300 {
		return fault.OfHTTP(rs.StatusCode).Errorf("member %s refused contacts", peer)
	}
	return nil
}
