package links

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-fleet/drover/api/wire"
)

func TestBodiesAreCappedAndStrictlyDecoded(t *testing.T) {
	h := newHub(t, 0, nil)
	m := h.member(memberOptions{})
	b := enrolled(t, h, m, "pi-01")
	cert, err := b.keeper.Certificate()
	check(t, err)
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: h.authority.Roots(), ServerName: wire.HubServerName, Certificates: []tls.Certificate{*cert}}}
	defer tr.CloseIdleConnections()
	const cbor = "application/cbor"
	for _, c := range []struct {
		name, path, typ string
		body            io.Reader
		want            int
		says            string
	}{
		{"too large by its length", wire.PathHello, cbor, bytes.NewReader(make([]byte, wire.MaxHello+1)), 413, "65537 bytes; the limit is 65536"},
		{"too large by what comes", wire.PathHello, cbor, io.MultiReader(bytes.NewReader(make([]byte, wire.MaxHello+1))), 413, "limit of 65536 bytes"},
		{"an enrollment that is too large", wire.PathEnroll, cbor, bytes.NewReader(make([]byte, wire.MaxEnroll+1)), 413, "limit"},
		{"not CBOR", wire.PathPoll, cbor, strings.NewReader("\xff\xff"), 400, "decode Poll"},
		{"an unknown field", wire.PathPoll, cbor, strings.NewReader("\xa1\x18\x63\x01"), 400, "decode Poll"},
		{"bytes behind the end", wire.PathPoll, cbor, strings.NewReader("\xa0\x00"), 400, "decode Poll"},
		{"another type", wire.PathReport, "application/json", strings.NewReader("{}"), 415, "want application/cbor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rs, err := (&http.Client{Transport: tr}).Post(m.url+c.path, c.typ, c.body)
			check(t, err)
			defer func() { _ = rs.Body.Close() }()
			if got := readAll(t, rs.Body); rs.StatusCode != c.want || !strings.Contains(got, c.says) {
				t.Errorf("%d %s; want %d with %q", rs.StatusCode, got, c.want, c.says)
			}
		})
	}
	rs, err := (&http.Client{Transport: tr}).Get(m.url + wire.PathHello)
	check(t, err)
	check(t, rs.Body.Close())
	if rs.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d, want 405", rs.StatusCode)
	}
}
