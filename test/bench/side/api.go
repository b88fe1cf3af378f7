package side

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/test/bench/store/load"
)

// apiSession speaks the operators' HTTPS API: a key is a ConfigMap, a batch a transaction.
type apiSession struct {
	base  string
	http  *http.Client
	since func(context.Context) (string, error) // a revision to watch from, asked for once
}

func dialAPI(_ context.Context, s *load.Spec, endpoint string) (load.Session, error) {
	config, err := clientTLS(s)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxConnsPerHost: 1}
	c := apiSession{base: "https://" + endpoint, http: &http.Client{Transport: t}}
	var mu sync.Mutex
	var known string
	c.since = func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		var err error
		if known == "" {
			known, err = c.newest(ctx)
		}
		return known, err
	}
	return c, nil
}

func clientTLS(s *load.Spec) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", s.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: roots, ServerName: wire.HubServerName}, nil
}

func (s apiSession) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

const configMaps = "/api/v1/namespaces/" + api.DefaultNS + "/configmaps"

// CreatedIn is the namespace in which creates are made, apart from what is listed. It must be there.
const CreatedIn = "created"

// Create makes a ConfigMap.
func (s apiSession) Create(ctx context.Context, key string, value []byte) error {
	m := configMap(key, value, 0)
	m.Metadata.Namespace = CreatedIn
	return s.do(ctx, http.MethodPost, "/api/v1/namespaces/"+CreatedIn+"/configmaps", m, nil)
}

// Apply is server-side apply, which takes the fields over.
func (s apiSession) Apply(ctx context.Context, key string, value []byte) error {
	resp, err := s.sendAs(ctx, http.MethodPatch, configMaps+"/"+key+"?fieldManager="+applier+"&force=true", "application/apply-patch+yaml", configMap(key, value, 0))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// itemMark stands once in each item of a list as the hub writes it.
var itemMark = []byte(`"kind":"ConfigMap",`)

// List reads all ConfigMaps in one answer, compressed as Go's clients ask for it, and counts its items without decoding them: what a
// client makes of an answer is not the hub's time. The prefix is that of all of them.
func (s apiSession) List(ctx context.Context, _ string) (int, error) {
	resp, err := s.send(ctx, http.MethodGet, configMaps, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return bytes.Count(b, itemMark), err
}

func configMap(key string, value []byte, version uint64) *api.ConfigMap {
	m := &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Namespace: api.DefaultNS, Name: key},
		Data:     map[string]string{"v": string(value)},
	}
	if version != 0 {
		m.Metadata.ResourceVersion = strconv.FormatUint(version, 10)
	}
	return m
}

func (s apiSession) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.PutIf(ctx, key, value, 0)
}

func (s apiSession) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	var got api.ConfigMap
	if err := s.do(ctx, http.MethodPut, configMaps+"/"+key, configMap(key, value, version), &got); err != nil {
		return 0, err
	}
	return strconv.ParseUint(got.Metadata.ResourceVersion, 10, 64)
}

// applier is the manager of what this bench applies.
const applier = "bench-apply"

type transaction struct {
	Items        []transactionItem `json:"items"`
	FieldManager string            `json:"fieldManager"`
	Force        bool              `json:"force"`
}

type transactionItem struct {
	Verb   string         `json:"verb"`
	Object *api.ConfigMap `json:"object"`
}

func (s apiSession) Batch(ctx context.Context, keys []string, value []byte) error {
	tx := transaction{FieldManager: applier, Force: true}
	for _, k := range keys {
		tx.Items = append(tx.Items, transactionItem{"apply", configMap(k, value, 0)})
	}
	return s.do(ctx, http.MethodPost, "/apis/"+api.FleetV1+"/transactions", tx, nil)
}

func (s apiSession) Get(ctx context.Context, key string, stale bool) error {
	path := configMaps + "/" + key
	if stale {
		path += "?resourceVersion=0"
	}
	return s.do(ctx, http.MethodGet, path, nil, nil)
}

func (s apiSession) do(ctx context.Context, method, path string, body, into any) error {
	resp, err := s.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into != nil {
		return json.NewDecoder(resp.Body).Decode(into)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func (s apiSession) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	return s.sendAs(ctx, method, path, "application/json", body)
}

// sendAs returns an answer of class 2xx.
func (s apiSession) sendAs(ctx context.Context, method, path, media string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	rq, err := http.NewRequestWithContext(ctx, method, s.base+path, in)
	if err != nil {
		return nil, err
	}
	rq.Header.Set("Content-Type", media)
	resp, err := s.http.Do(rq)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	return nil, errors.Join(fmt.Errorf("%s: %s", resp.Status, said), err, resp.Body.Close())
}

func (s apiSession) Watch(ctx context.Context, key string, prefix bool, ready func(), event func([]byte)) error {
	since, err := s.since(ctx)
	if err != nil {
		return err
	}
	q := url.Values{"watch": {"1"}, "resourceVersion": {since}} // what is there already is not a part of what is measured
	if !prefix {
		q.Set("fieldSelector", "metadata.name="+key)
	}
	resp, err := s.send(ctx, http.MethodGet, configMaps+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	ready()
	// What a client makes of an event is not the hub's time: the value alone is cut out.
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !bytes.HasPrefix(line, modified) {
			continue
		}
		if _, rest, ok := bytes.Cut(line, valueMark); ok {
			value, _, _ := bytes.Cut(rest, []byte{'"'})
			event(value)
		}
	}
}

// newest is a revision of now to watch from.
func (s apiSession) newest(ctx context.Context) (string, error) {
	resp, err := s.send(ctx, http.MethodGet, configMaps+"?limit=1", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var page struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err = json.NewDecoder(resp.Body).Decode(&page)
	return page.Metadata.ResourceVersion, err
}

// modified begins the event of a change, valueMark the value in it, as the hub writes them.
var modified, valueMark = []byte(`{"type":"MODIFIED"`), []byte(`"data":{"v":"`)
