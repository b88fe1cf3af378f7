package remote

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
)

// Options tune a Client. The zero value is right for the CLI.
type Options struct {
	// Patience is how long one call keeps trying members before it is Unreachable; default 10 s. A context that ends earlier
	// rules.
	Patience time.Duration
	// Attempt bounds one attempt at one member, a watch's and a log's start included; default 35 s, above the hub's own limit.
	Attempt time.Duration
	// Dial bounds connecting to one member, TLS included; default 3 s.
	Dial time.Duration
	// UserAgent names the program; default "drover".
	UserAgent string
	// Warn gets the warnings that the hub sends beside an answer; nil drops them.
	Warn func(text string)
}

func (o Options) withDefaults() Options {
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.Attempt <= 0 {
		o.Attempt = 35 * time.Second
	}
	if o.Dial <= 0 {
		o.Dial = 3 * time.Second
	}
	if o.UserAgent == "" {
		o.UserAgent = "drover"
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return o
}

// Client talks to the members of one hub. Safe for concurrent use.
type Client struct {
	o      Options
	http   *http.Client
	policy retry.Policy
	random retry.Random
	newID  func() string

	bearer   bearer
	as       string
	asGroups []string

	mu      sync.Mutex
	servers []string // the one that answered last comes first
}

var _ client.Client = (*Client)(nil)

// New makes a Client of a kubeconfig. It connects to nothing yet.
func New(k *Kubeconfig, o Options) (*Client, error) {
	o = o.withDefaults()
	if len(k.Servers) == 0 {
		return nil, errors.New("no server is given")
	}
	cfg, err := k.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		// No proxy from the environment: the members are named, and a proxy would see an operator's certificate fail.
		Proxy:                 nil,
		DialContext:           (&net.Dialer{Timeout: o.Dial, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       cfg,
		TLSHandshakeTimeout:   o.Dial,
		ResponseHeaderTimeout: o.Attempt,
		IdleConnTimeout:       60 * time.Second,
		MaxIdleConnsPerHost:   8,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	return &Client{
		o: o, policy: retry.Policy{Base: 50 * time.Millisecond, Max: time.Second}, random: randv2.Int64N, newID: rand.Text,
		http:   &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		bearer: bearer{fixed: k.Token, file: k.TokenFile, now: time.Now},
		as:     k.As, asGroups: slices.Clone(k.AsGroups),
		servers: slices.Clone(k.Servers),
	}, nil
}

// Close drops idle connections. Calls in flight are not disturbed.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (k *Kubeconfig) tlsConfig() (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(k.CA) {
		return nil, errors.New("certificate-authority: no certificate in it")
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: k.ServerName}
	if len(k.Cert) == 0 {
		return cfg, nil
	}
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil {
		return nil, fmt.Errorf("client certificate and key: %w", err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// order is the members, the one that answered last first.
func (c *Client) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

// prefer moves the member that answered to the front.
func (c *Client) prefer(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.servers, server)
	if i <= 0 {
		return
	}
	c.servers = slices.Insert(slices.Delete(c.servers, i, i+1), 0, server)
}
