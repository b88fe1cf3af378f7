package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
)

const tokenText = "a-token-that-must-not-be-found-"

// withToken has the first container mount a volume with one token, good for an hour.
func withToken(account string) func(*wire.Assignment) {
	return func(a *wire.Assignment) {
		a.Account = account
		a.Volumes = []wire.Volume{{Name: "hub", Tokens: []wire.TokenFile{{Path: "token", Audience: "drover", LifeSecs: 3600}}, FileMode: 0o644}}
		a.Containers[0].Mounts = []wire.Mount{{Volume: "hub", Path: "/hub", ReadOnly: true}}
	}
}

// issuing has the device's hub give numbered tokens.
func (d *device) issuing() {
	n := 0
	d.tokens = func(wire.TokenRequest) (string, error) { n++; return fmt.Sprint(tokenText, n), nil }
}

func (d *device) connect(yes bool) { d.give(HubChanged{yes}) }

func (d *device) wantToken(want string) {
	d.t.Helper()
	if got := d.rt.Token("cam", "hub", "token"); got != want {
		d.t.Fatalf("the file holds %q, want %q", got, want)
	}
}

func (d *device) says(condition, status, text string) {
	d.t.Helper()
	if c := d.condition(condition); c.Status != status || !strings.Contains(c.Message, text) {
		d.t.Fatalf("condition %+v, want %s with %q", c, status, text)
	}
}

// tokenDevice has been told of a workload that wants a token, and has its image. Whether a hub is connected is the test's.
func tokenDevice(t *testing.T, seed uint64) (*device, *hub) {
	d, h := newDevice(t, seed), newHub(t)
	d.rt.Publish(img("1"), nil)
	d.rt.Publish(img("2"), nil)
	d.start(0)
	h.set(assignment("cam", img("1"), withToken("robot")))
	return d, h
}

func TestAWorkloadStartsWithItsTokenWhichIsRenewedInTime(t *testing.T) {
	d, h := tokenDevice(t, 1)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.runs("cam=" + img("1"))
	d.wantToken(tokenText + "1")
	q := d.asked[0]
	want := wire.TokenRequest{UID: "cam", Namespace: "default", Name: "cam.pi-07", Account: "robot", Volume: "hub", Path: "token", Audience: "drover", LifeSecs: 3600}
	if q != want {
		t.Errorf("asked %+v, want %+v", q, want)
	}
	began := d.boot
	d.pass(44 * time.Minute)
	d.wantToken(tokenText + "1")
	d.pass(5 * time.Minute)
	d.wantToken(tokenText + "2")
	if n := len(d.asked); n != 2 {
		t.Errorf("asked %d times in %s, want twice", n, d.boot-began)
	}
	d.says("TokenMissing", "False", "")
	d.says("TokenExpired", "False", "")
	if n := d.rt.Starts("cam"); n != 1 {
		t.Errorf("%d starts, want 1: a renewal restarts nothing", n)
	}
}

func TestOfflineTheOldTokenStaysAndItsEndIsSaid(t *testing.T) {
	d, h := tokenDevice(t, 2)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.connect(false)
	asked := len(d.asked)
	d.pass(59 * time.Minute)
	d.says("TokenExpired", "False", "")
	ended := d.wall.Add(time.Minute)
	d.pass(5 * time.Hour)
	d.wantToken(tokenText + "1")
	d.runs("cam=" + img("1"))
	d.says("TokenExpired", "True", "default/cam.pi-07, token of volume hub: since "+ended.UTC().Format("2006-01-02T15:04"))
	if n := len(d.asked); n != asked {
		t.Errorf("asked %d times while no hub was connected, want never", n-asked)
	}
	if n := d.journaled("TokenExpired"); n != 1 {
		t.Errorf("journalled %d times, want once", n)
	}
	d.rt.Exit("cam", 1) // what ends starts again with what is there
	d.give(RuntimeChanged{})
	d.pass(time.Minute)
	d.runs("cam=" + img("1"))
	d.connect(true)
	d.wantToken(tokenText + "2")
	d.says("TokenExpired", "False", "")
}

func TestTheNextAgentAdoptsAndARebootMakesAnew(t *testing.T) {
	d, h := tokenDevice(t, 3)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.pass(10 * time.Minute)
	d.start(0)
	d.connect(true)
	if n := len(d.asked); n != 1 {
		t.Errorf("asked %d times, want once: the file is there", n)
	}
	d.pass(40 * time.Minute)
	d.wantToken(tokenText + "2")
	d.reboot()
	d.wantToken("")
	d.start(0)
	d.runs()
	d.connect(true)
	d.wantToken(tokenText + "3")
	d.runs("cam=" + img("1"))
}

func TestAfterARebootWithoutANetworkItStartsWithoutItsToken(t *testing.T) {
	d, h := tokenDevice(t, 4)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.runs("cam=" + img("1"))
	d.tokens = nil
	d.reboot()
	d.start(0)
	d.pass(tokenPatience - time.Second)
	d.runs()
	if st := d.status("cam"); !strings.Contains(st.Message, "waits for the token token of volume hub") {
		t.Errorf("status %+v, want what it waits for", st)
	}
	d.pass(time.Second)
	d.runs("cam=" + img("1"))
	d.says("TokenMissing", "True", "default/cam.pi-07, token of volume hub: no hub is connected")
	d.issuing()
	d.connect(true)
	d.wantToken(tokenText + "1")
	d.says("TokenMissing", "False", "")
	if n := d.rt.Starts("cam"); n != 2 {
		t.Errorf("%d starts, want 2: the file comes to what runs", n)
	}
}

func TestOnlyAMissingAccountHoldsAStartBackAndOnlyWhileAHubSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		runs bool
	}{
		"no account":    {fault.ObjectNotFound("serviceaccounts", "robot"), false},
		"not allowed":   {fault.Forbidden.Errorf("not bound"), true},
		"no quorum":     {fault.NoQuorum("two are away"), true},
		"slow down":     {fault.SlowDown(time.Hour, "busy"), true},
		"not reachable": {fault.Unreachable.Errorf("no route"), true},
	} {
		t.Run(name, func(t *testing.T) {
			d, h := tokenDevice(t, 5)
			d.tokens = func(wire.TokenRequest) (string, error) { return "", tc.err }
			d.connect(true)
			h.tell(d)
			d.pass(10 * time.Minute)
			d.says("TokenMissing", "True", tc.err.Error())
			if n := len(d.asked); n > 20 {
				t.Errorf("asked %d times in ten minutes, want fewer and fewer", n)
			}
			if tc.runs {
				d.runs("cam=" + img("1"))
				return
			}
			d.runs()
			if st := d.status("cam"); !strings.Contains(st.Message, `serviceaccounts "robot" not found`) {
				t.Errorf("status %+v, want the account named", st)
			}
			d.connect(false)
			d.runs("cam=" + img("1"))
		})
	}
}

func TestTheOldRunsOnUntilTheNewHasItsToken(t *testing.T) {
	d, h := tokenDevice(t, 6)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.tokens = func(wire.TokenRequest) (string, error) { return "", fault.ObjectNotFound("serviceaccounts", "other") }
	h.set(assignment("cam", img("2"), withToken("other")))
	h.tell(d)
	d.pass(10 * time.Minute)
	d.runs("cam=" + img("1"))
	d.wantToken(tokenText + "1")
	d.issuing()
	d.pass(6 * time.Minute)
	d.runs("cam=" + img("2"))
	if q := d.asked[len(d.asked)-1]; q.Account != "other" {
		t.Errorf("asked for %s, want the new account", q.Account)
	}
	d.noViolations()
}

func TestWhatNothingAsksForAnyMoreIsRemoved(t *testing.T) {
	d, h := tokenDevice(t, 7)
	d.issuing()
	d.connect(true)
	h.tell(d)
	h.set(assignment("cam", img("2")))
	h.tell(d)
	d.pass(time.Minute)
	d.runs("cam=" + img("2"))
	d.wantToken("")
	h.set(assignment("cam", img("1"), withToken("robot")))
	h.tell(d)
	d.wantToken(tokenText + "2")
	h.remove("cam")
	h.tell(d)
	d.pass(time.Minute)
	d.wantToken("")
	asked := len(d.asked)
	d.pass(2 * time.Hour)
	if n := len(d.asked); n != asked {
		t.Errorf("asked %d times for what was removed", n-asked)
	}
}

func TestAnAnswerToAnotherRequestIsNotWritten(t *testing.T) {
	d, _ := tokenDevice(t, 8)
	h := Hands{Driver: d.drv, Unseal: d.unseal, Token: func(_ context.Context, q wire.TokenRequest) (wire.TokenReply, error) {
		q.Audience = "vault"
		ref, err := q.Ref()
		return wire.TokenReply{Token: wire.Sealed{Ref: ref, Ciphertext: []byte("x")}, LifeSecs: 600}, err
	}}
	op := Op{Kind: OpToken, Ask: wire.TokenRequest{UID: "cam", Audience: "drover", LifeSecs: 600}}
	if done := h.Perform(t.Context(), op); !fault.Is(done.Err, fault.Unavailable) {
		t.Errorf("got %v, want it refused", done.Err)
	}
	d.wantToken("")
}

func TestTheTokenIsInNoFileAndNoReport(t *testing.T) {
	d, h := tokenDevice(t, 9)
	d.issuing()
	d.connect(true)
	h.tell(d)
	d.wantToken(tokenText + "1")
	report, err := wire.Encode(d.report)
	if err != nil || bytes.Contains(report, []byte(tokenText)) {
		t.Errorf("the report holds the token (%v)", err)
	}
	files, err := filepath.Glob(filepath.Join(d.dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v: nothing to search", files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, []byte(tokenText)) {
			t.Errorf("%s holds the token (%v)", f, err)
		}
	}
}
