package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/drover-fleet/drover/api/wire"
)

// sender carries one attack over one transport and returns what the member answered: an HTTP status, or the class's of another transport;
// 0 when it ended the connection without an answer.
type sender interface {
	send(g *target) (code int, detail string)
}

// request is an attack by one HTTP request.
type request struct {
	as     *tls.Certificate // nil: nobody
	method string
	path   string // as it stands in the request line
	header map[string]string
	body   func() io.Reader // nil: none
	http1  bool
}

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func (a request) send(g *target) (int, string) {
	ctx, cancel := context.WithTimeout(g.t.Context(), 45*time.Second)
	defer cancel()
	var body io.Reader
	if a.body != nil {
		body = a.body()
	}
	rq, err := http.NewRequestWithContext(ctx, a.method, "https://"+g.addr+"/", body)
	check(g.t, err)
	path, query, _ := strings.Cut(a.path, "?")
	rq.URL.Opaque, rq.URL.RawQuery = path, query // not cleaned on its way
	rq.Header.Set("Content-Type", "application/json")
	for k, v := range a.header {
		rq.Header.Set(k, v)
	}
	web := g.client(a.as)
	if tr, ok := web.Transport.(*http.Transport); ok && a.http1 {
		tr.ForceAttemptHTTP2 = false
		tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	resp, err := web.Do(rq)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(b)
}

// message is an attack by one message of the device protocol.
type message struct {
	as   *tls.Certificate
	path string
	body any
}

func (a message) send(g *target) (int, string) {
	b, err := wire.Encode(a.body)
	check(g.t, err)
	return request{as: a.as, method: http.MethodPost, path: a.path, header: map[string]string{"Content-Type": "application/cbor"}, body: text(string(b))}.send(g)
}

// raw is an attack by bytes over a TLS connection with HTTP/1.
type raw struct {
	as    *tls.Certificate
	write func(w io.Writer) error
}

func (a raw) send(g *target) (int, string) {
	config := g.tls(a.as)
	config.NextProtos = []string{"http/1.1"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(g.t.Context(), "tcp", g.addr)
	if err != nil {
		return 0, err.Error()
	}
	defer conn.Close()
	check(g.t, conn.SetDeadline(time.Now().Add(60*time.Second)))
	wrote := make(chan error, 1)
	go func() { wrote <- a.write(conn) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	_ = conn.Close()
	if werr := <-wrote; err != nil {
		return 0, errors.Join(err, werr).Error()
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Status
}

// trickle writes a head and then a byte now and then, until the other side ends it.
func trickle(head string) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, head); err != nil {
			return err
		}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			<-tick.C
			if _, err := io.WriteString(w, "x"); err != nil {
				return err
			}
		}
	}
}

// endless writes chunks of a body until the other side ends it.
func endless(w io.Writer) error {
	if _, err := io.WriteString(w, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	chunk := strings.Repeat("x", 32<<10)
	for {
		if _, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(chunk), chunk); err != nil {
			return err
		}
	}
}
