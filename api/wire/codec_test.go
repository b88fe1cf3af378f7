package wire

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api/fault"
)

func hash(b byte) Hash { return bytes.Repeat([]byte{b}, 32) }

func position() Position {
	return Position{ClusterID: "c1", Epoch: 1, EpochID: "e1", Revision: 1<<40 | 7}
}

func assignment() *Assignment {
	return &Assignment{
		UID: "u1", Namespace: "default", Name: "camera.pi-07", Workload: "camera", Revision: "camera-7b1", GraceSecs: 30,
		Containers: []Container{{
			Name: "main", Image: "r.example/camera@" + hash(1).String(), ImageName: "r.example/camera:1.4",
			Env:       []Env{{Name: "A", Value: "b"}, {Name: "S", Secret: &SecretRef{Name: "default/s/k", ID: hash(2)}}},
			Mounts:    []Mount{{Volume: "data", Path: "/data"}},
			Readiness: &Probe{Command: []string{"true"}, PeriodSecs: 1, TimeoutSecs: 1, Successes: 1, Failures: 1},
		}},
		Volumes: []Volume{{Name: "data"}, {Name: "dev", HostPath: "/dev"}},
	}
}

func desired(t *testing.T) *Desired {
	t.Helper()
	d := &Desired{
		Position: position(), Device: "pi-07",
		Assignments: []Entry{{UID: "u1", SpecHash: hash(3), Secrets: []SecretRef{{Name: "default/s/k", ID: hash(2)}}}, {UID: "u2", SpecHash: hash(4)}},
		Tombstones:  []Tombstone{{UID: "u0", Name: "default/web.1", Revision: 5}},
	}
	return withHash(t, d)
}

func withHash(t *testing.T, d *Desired) *Desired {
	t.Helper()
	h, err := d.ComputeBundleHash()
	if err != nil {
		t.Fatal(err)
	}
	d.BundleHash = h
	return d
}

func report() *Report {
	return &Report{
		Session: 2, Sequence: 3, Held: position(), BundleHash: hash(5), WallTime: 1,
		Statuses:   []Status{{UID: "u1", Phase: "Running", Ready: true, Containers: []ContainerStatus{{Name: "main", State: "Running"}}}},
		Gone:       []string{"u0"},
		Conditions: []Condition{{Type: "Ready", Status: "True"}},
		Journal:    []JournalRecord{{Sequence: 1, Count: 1, Reason: "Started", UID: "u1"}, {Sequence: 2, Count: 3, Reason: "Exited"}},
	}
}

// samples are one good message of each type.
func samples(t *testing.T) []message {
	t.Helper()
	pos := position()
	facts := Facts{Platform: "linux/arm64/v8", CPUs: 4}
	return []message{
		&pos,
		&Hello{Capability: 1, AgentVersion: "1", BootID: "b", Session: 1, Facts: facts},
		&HelloReply{Capability: 1, PollSeconds: 300, Endpoints: []string{"https://h1:7443"}},
		&Poll{Session: 1, Held: pos},
		&PollReply{Desired: &Signed{Payload: []byte{1}, Certificate: []byte{2}, Signature: []byte{3}}},
		desired(t), assignment(), report(),
		&BodiesRequest{Bodies: []Hash{hash(1)}, Secrets: []SecretRef{{Name: "a/b/c", ID: hash(2)}}},
		&BodiesReply{Bodies: [][]byte{{1}}, Secrets: []Sealed{{Ref: SecretRef{Name: "a/b/c", ID: hash(2)}, Ephemeral: make([]byte, 65), Ciphertext: []byte{1}}}},
		&TokenRequest{Session: 1, UID: "u1", Namespace: "default", Name: "camera.pi-07", Account: "robot", Volume: "hub", Path: "a/token", Audience: "drover", LifeSecs: 600},
		&TokenReply{Token: Sealed{Ref: SecretRef{Name: "a/b/c", ID: hash(2)}, Ephemeral: make([]byte, 65), Ciphertext: []byte{1}}, LifeSecs: 600},
		&Command{ID: "id-1", ClusterID: "c1", Device: "pi-07", TTLSecs: 30, Verb: VerbOpenStream, Stream: &Logs{UID: "u1", TailLines: -1}},
		&EnrollRequest{Token: "drover1.a.b.c", Name: "pi-07", CSR: []byte{1}, Facts: facts},
		&EnrollReply{State: EnrollApproved, Certificate: []byte{1}, CA: [][]byte{{2}}, ClusterID: "c1"},
	}
}

func TestMessagesSurviveTheirEncoding(t *testing.T) {
	for _, want := range samples(t) {
		b, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
		if err := Decode(b, len(b), got); err != nil {
			t.Errorf("%T: %v", want, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-want +got):\n%s", want, diff)
		}
		again, err := Encode(got)
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%T is encoded in two ways: %x and %x (%v)", want, b, again, err)
		}
	}
}

func TestSizeIsCheckedBeforeDecoding(t *testing.T) {
	err := Decode(make([]byte, 101), 100, &Poll{})
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "Poll is 101 bytes; the limit is 100 bytes") {
		t.Errorf("got %v, want TooLarge with size and limit", err)
	}
}

func TestDecodingIsStrict(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":               "",
		"an unknown field":      "\xa2\x01\x01\x18\x63\x01",                             // {1: 1, 99: 1}
		"a key twice":           "\xa2\x01\x01\x01\x02",                                 // {1: 1, 1: 2}
		"an indefinite map":     "\xbf\x01\x01\xff",                                     // {_ 1: 1}
		"an indefinite string":  "\xa1\x02\xa1\x01\x7f\x61a\xff",                        // {2: {1: (_ "a")}}
		"a tag":                 "\xa1\x01\xc1\x01",                                     // {1: 1(1)}
		"bytes after the end":   "\xa1\x01\x01\x00",                                     // {1: 1}, 0
		"a cut":                 "\xa2\x01\x01",                                         // {1: 1, ...
		"a wrong type":          "\xa1\x01\x61a",                                        // {1: "a"}
		"a huge array":          "\xa1\x03\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",         // {3: [2^63-1 elements]}
		"a huge byte string":    "\xa1\x03\x5b\x00\x00\x00\xff\xff\xff\xff\xff",         // {3: bytes of 1 TiB}
		"deep nesting":          strings.Repeat("\x81", 64) + "\x01",                    // [[[[...
		"text that is no UTF-8": "\xa1\x02\xa1\x01\x61\xff",                             // {2: {1: "\xff"}}
		"a negative session":    "\xa1\x01\x20",                                         // {1: -1}
		"a key of another kind": "\xa1\x61a\x01",                                        // {"a": 1}
		"a field beyond range":  "\xa1\x02\xa1\x02\x1b\xff\xff\xff\xff\xff\xff\xff\xff", // {2: {2: 2^64-1}}
	} {
		if err := Decode([]byte(data), MaxHello, &Poll{}); !errors.Is(err, fault.BadRequest) {
			t.Errorf("%s: got %v, want BadRequest", name, err)
		}
	}
}

func TestOnlyMessagesThatNegotiatePassOverUnknownFields(t *testing.T) {
	for _, m := range samples(t) {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if b[0]&0xe0 != 0xa0 || b[0] >= 0xb7 {
			t.Fatalf("%T does not begin with a small map: %#x", m, b[0])
		}
		newer := append(append([]byte{b[0] + 1}, b[1:]...), 0x18, 99, 0x01) // one field more: 99
		got := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		_, lenient := m.(negotiator)
		if err := Decode(newer, len(newer), got); (err == nil) != lenient {
			t.Errorf("%T with a field of a newer capability: %v; want it passed over: %v", m, err, lenient)
		}
	}
}

func TestAWrongMessageIsInvalid(t *testing.T) {
	for name, m := range map[string]message{
		"uid as a path":            &Logs{UID: "../../etc"},
		"empty uid":                &Logs{},
		"uid with a slash":         &Logs{UID: "a/b"},
		"uid too long":             &Logs{UID: strings.Repeat("a", 65)},
		"session 0":                &Hello{Capability: 1},
		"capability 0":             &Hello{Session: 1},
		"short hash":               &BodiesRequest{Bodies: []Hash{{1}}},
		"too many bodies":          &BodiesRequest{Bodies: make([]Hash, maxEntries+1)},
		"command without an end":   &Command{ID: "a", Device: "d", Verb: "v"},
		"tail lines":               &Logs{UID: "a", TailLines: -2},
		"ephemeral key":            &Sealed{Ref: SecretRef{Name: "a", ID: hash(1)}, Ephemeral: []byte{4}},
		"approved without a cert":  &EnrollReply{State: EnrollApproved},
		"unknown state":            &EnrollReply{State: "maybe"},
		"no request":               &EnrollRequest{Name: "pi"},
		"device's name as a path":  &EnrollRequest{Name: "../pi", CSR: []byte{1}},
		"long fact":                &Facts{Model: strings.Repeat("x", 513)},
		"condition's status":       &Condition{Type: "Ready", Status: "yes"},
		"journal without a number": &JournalRecord{Count: 1, Reason: "x"},
		"desired with wrong hash":  changed(desired(t), func(d *Desired) { d.BundleHash = hash(9) }),
		"desired out of order":     withHash(t, changed(desired(t), func(d *Desired) { d.Assignments[0], d.Assignments[1] = d.Assignments[1], d.Assignments[0] })),
		"desired with a twin":      withHash(t, changed(desired(t), func(d *Desired) { d.Assignments[1].UID = "u1" })),
		"no container":             changed(assignment(), func(a *Assignment) { a.Containers = nil }),
		"image by tag":             changed(assignment(), func(a *Assignment) { a.Containers[0].Image = "r.example/camera:1.4" }),
		"image with a bad digest":  changed(assignment(), func(a *Assignment) { a.Containers[0].Image = "r@sha256:12" }),
		"container twice":          changed(assignment(), func(a *Assignment) { a.Containers = append(a.Containers, a.Containers[0]) }),
		"mount without a volume":   changed(assignment(), func(a *Assignment) { a.Volumes = nil }),
		"relative mount":           changed(assignment(), func(a *Assignment) { a.Containers[0].Mounts[0].Path = "data" }),
		"mount that climbs":        changed(assignment(), func(a *Assignment) { a.Containers[0].Mounts[0].Path = "/a/../../b" }),
		"relative host path":       changed(assignment(), func(a *Assignment) { a.Volumes[1].HostPath = "dev" }),
		"variable's name":          changed(assignment(), func(a *Assignment) { a.Containers[0].Env[0].Name = "A=B" }),
		"value and secret":         changed(assignment(), func(a *Assignment) { a.Containers[0].Env[1].Value = "x" }),
		"zero byte":                changed(assignment(), func(a *Assignment) { a.Containers[0].Args = []string{"a\x00b"} }),
		"restart policy":           changed(assignment(), func(a *Assignment) { a.Restart = 3 }),
		"probe without period":     changed(assignment(), func(a *Assignment) { a.Containers[0].Readiness.PeriodSecs = 0 }),
		"report sequence 0":        changed(report(), func(r *Report) { r.Sequence = 0 }),
		"status twice":             changed(report(), func(r *Report) { r.Statuses = append(r.Statuses, r.Statuses[0]) }),
		"journal out of order":     changed(report(), func(r *Report) { r.Journal[1].Sequence = 1 }),
		"condition twice":          changed(report(), func(r *Report) { r.Conditions = append(r.Conditions, r.Conditions[0]) }),
		"gone uid":                 changed(report(), func(r *Report) { r.Gone[0] = "." }),
	} {
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		if err := Decode(b, len(b), got); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
}

func changed[T any](v *T, change func(*T)) *T {
	change(v)
	return v
}

func TestBundleHashCoversWhatIsToRunAndToGoOnly(t *testing.T) {
	base := desired(t).BundleHash
	for name, c := range map[string]struct {
		change func(*Desired)
		same   bool
	}{
		"position":             {func(d *Desired) { d.Position.Revision++ }, true},
		"tombstone's revision": {func(d *Desired) { d.Tombstones[0].Revision++ }, true},
		"device":               {func(d *Desired) { d.Device = "pi-08" }, false},
		"spec":                 {func(d *Desired) { d.Assignments[0].SpecHash = hash(8) }, false},
		"secret":               {func(d *Desired) { d.Assignments[0].Secrets[0].ID = hash(8) }, false},
		"one less":             {func(d *Desired) { d.Assignments = d.Assignments[:1] }, false},
		"tombstone gone":       {func(d *Desired) { d.Tombstones = nil }, false},
	} {
		h, err := changed(desired(t), c.change).ComputeBundleHash()
		if err != nil || h.Equal(base) != c.same {
			t.Errorf("%s: hash equal = %v, %v; want %v", name, h.Equal(base), err, c.same)
		}
	}
}

func TestADeviceAcceptsOnlyWhatIsNotOlderFromItsOwnCluster(t *testing.T) {
	held := position()
	for name, c := range map[string]struct {
		change func(*Position)
		want   fault.Class
	}{
		"the same":                     {func(*Position) {}, ""},
		"newer":                        {func(p *Position) { p.Revision++ }, ""},
		"a newer epoch":                {func(p *Position) { p.Epoch, p.EpochID, p.Revision = 2, "e2", 1 }, ""},
		"older":                        {func(p *Position) { p.Revision-- }, fault.Expired},
		"an older epoch":               {func(p *Position) { p.Epoch, p.EpochID, p.Revision = 0, "e0", 1<<63-1 }, fault.Expired},
		"another cluster":              {func(p *Position) { p.ClusterID, p.Epoch = "c2", 9 }, fault.Forbidden},
		"another history of the epoch": {func(p *Position) { p.EpochID, p.Revision = "other", 1<<63-1 }, fault.OtherEpoch},
	} {
		next := held
		c.change(&next)
		if got := fault.ClassOf(held.Accept(next)); got != c.want {
			t.Errorf("%s: class %q, want %q", name, got, c.want)
		}
	}
	if err := (Position{}).Accept(held); err != nil {
		t.Errorf("holding nothing: %v, want anything accepted", err)
	}
	if err := (Position{ClusterID: "c1"}).Accept(held); err != nil {
		t.Errorf("holding nothing of the cluster: %v, want it accepted", err)
	}
	if !held.SameHistory(held) || held.Older(held) || !(Position{}).Older(held) || !(Position{}).IsZero() || held.IsZero() {
		t.Error("order of positions is wrong")
	}
}

func TestHashText(t *testing.T) {
	h := HashOf([]byte("x"))
	if got, err := ParseHash(h.String()); err != nil || !got.Equal(h) {
		t.Errorf("%s reads as %v, %v", h, got, err)
	}
	if len(h.Short()) != 10 || (Hash{}).Short() != "" || Hash(nil).String() != "" {
		t.Errorf("short %q, of nothing %q", h.Short(), Hash(nil))
	}
	if got, err := ParseHash(""); err != nil || got != nil {
		t.Errorf("empty text reads as %v, %v; want the absent hash", got, err)
	}
	for _, bad := range []string{"sha256:", "sha256:12", h.String()[7:], "sha512:" + h.String()[7:], h.String() + "0"} {
		if got, err := ParseHash(bad); err == nil {
			t.Errorf("%q reads as %v, want an error", bad, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for i, m := range []message{&Poll{Session: 1}, report(), assignment(), &Logs{UID: "a"}} {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, b)
	}
	f.Add(0, []byte("\xbf\x01\x01\xff"))
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		all := []message{&Poll{}, &Report{}, &Assignment{}, &Logs{}, &Hello{}, &Desired{}, &PollReply{}, &BodiesReply{}, &BodiesRequest{}, &Command{}, &EnrollRequest{}, &EnrollReply{}, &HelloReply{}}
		m := all[uint(kind)%uint(len(all))]
		if Decode(data, MaxReport, m) != nil {
			return
		}
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		if err := Decode(b, len(b), again); err != nil {
			t.Fatalf("%T: what was decoded does not decode again: %v", m, err)
		}
		if c, err := Encode(again); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("%T changes with each encoding (%v)", m, err)
		}
	})
}

func TestSecretTextDoesNotPrint(t *testing.T) {
	r := EnrollRequest{Token: "canary"}
	out := fmt.Sprintf("%v %+v %#v %s %q %x %d", r, r, r, r.Token, r.Token, r.Token, r.Token)
	if strings.Contains(out, "canary") || strings.Contains(out, fmt.Sprintf("%x", "canary")) || !strings.Contains(out, Redacted) {
		t.Errorf("printed: %s", out)
	}
	if b, err := r.Token.MarshalJSON(); err != nil || strings.Contains(string(b), "canary") {
		t.Errorf("as JSON: %s, %v", b, err)
	}
	if Secret("").String() != "" {
		t.Error("an empty secret prints as if it were there")
	}
}

// A variable that no program can be started with is refused where a person sees it, not by the kernel of a device.
func TestAVariableTooLongForLinuxIsRefused(t *testing.T) {
	for n, ok := range map[int]bool{128<<10 - 3: true, 128<<10 - 2: false} {
		e := Env{Name: "X", Value: strings.Repeat("v", n)}
		if err := e.Validate(); (err == nil) != ok {
			t.Errorf("%d bytes: got %v, want accepted %v", n, err, ok)
		}
	}
}
