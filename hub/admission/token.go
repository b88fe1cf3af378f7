package admission

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-fleet/drover/api/fault"
)

// anonymousToken answers a Bearer challenge as the distribution specification's token flow does, without credentials.
func (s *session) anonymousToken(challenge string) (string, error) {
	scheme, params, _ := strings.Cut(challenge, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fault.Invalid.Errorf("image %s: registry asks for %q credentials; only anonymous reads are supported", s.ref, scheme)
	}
	p := challengeParams(params)
	realm, err := url.Parse(p["realm"])
	if err != nil || realm.Host == "" || (realm.Scheme != "https" && !(realm.Scheme == "http" && s.r.plain(s.ref.Registry))) {
		return "", s.unavailable("its token server %q is not an HTTPS address", p["realm"])
	}
	q := realm.Query()
	if p["service"] != "" {
		q.Set("service", p["service"])
	}
	q.Set("scope", "repository:"+s.ref.Repository+":pull")
	realm.RawQuery = q.Encode()
	return s.fetchToken(realm.String())
}

func (s *session) fetchToken(address string) (string, error) {
	rq, err := http.NewRequestWithContext(s.ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", s.unavailable("%v", err)
	}
	resp, err := s.r.client.Do(rq)
	if err != nil {
		return "", s.unavailable("token: %v", withoutURL(err))
	}
	defer drain(resp)
	if resp.StatusCode != http.StatusOK {
		return "", s.refusal(resp)
	}
	var t struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxToken)).Decode(&t); err != nil {
		return "", s.unavailable("token: %v", err)
	}
	if t.Token == "" {
		t.Token = t.AccessToken
	}
	if t.Token == "" {
		return "", s.unavailable("its token server gave no token")
	}
	return t.Token, nil
}

// challengeParams reads key="value" pairs; values may hold commas, so it walks the quotes.
func challengeParams(s string) map[string]string {
	out := map[string]string{}
	for s != "" {
		key, rest, ok := strings.Cut(strings.TrimLeft(s, " ,"), "=")
		if !ok {
			break
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			value, s, _ = strings.Cut(rest[1:], `"`)
		} else {
			value, s, _ = strings.Cut(rest, ",")
		}
		out[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
	}
	return out
}
