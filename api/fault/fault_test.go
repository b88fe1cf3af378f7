package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEveryClassSurvivesKubernetesStatus(t *testing.T) {
	for _, row := range codes() {
		if row.class == Unreachable {
			continue // no server answers with it
		}
		want := &Error{Class: row.class, Message: "m", RetryAfter: 3 * time.Second, Details: Details{Name: "n", Kind: "k", Group: "g", UID: "u", Causes: []Cause{{Reason: "r", Field: "f", Message: "x"}}}}
		b, err := json.Marshal(StatusOf(fmt.Errorf("layer: %w", want)))
		if err != nil {
			t.Fatal(err)
		}
		var s Status
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		var got *Error
		if !errors.As(FromStatus(s), &got) {
			t.Fatalf("%s: FromStatus gives %v", row.class, FromStatus(s))
		}
		want.Message = "layer: m"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.class, diff)
		}
		if s.Code != row.class.HTTP() || s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" {
			t.Errorf("%s: Status is %+v", row.class, s)
		}
	}
}

func TestStatusIsAsKubernetesWritesIt(t *testing.T) {
	b, err := json.Marshal(StatusOf(ObjectNotFound("workloads", "hello")))
	want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"workloads \"hello\" not found","reason":"NotFound","details":{"name":"hello","kind":"workloads"},"code":404}`
	if err != nil || string(b) != want {
		t.Errorf("got  %s, %v\nwant %s", b, err, want)
	}
	if s := StatusOf(nil); s.Status != "Success" || FromStatus(s) != nil {
		t.Errorf("success is %+v", s)
	}
	if s := StatusOf(Ahead.Errorf("x")); s.Reason != "Timeout" || s.Details.Causes[0].Reason != "ResourceVersionTooLarge" {
		t.Errorf("Ahead is %+v, want what client-go knows as a resource version too large", s)
	}
	if err := FromStatus(Status{Status: "Failure", Reason: "Odd", Code: 404}); !errors.Is(err, NotFound) {
		t.Errorf("unknown reason with code 404 is %v, want NotFound", ClassOf(err))
	}
}

func TestAnUnclassifiedErrorDoesNotLeaveTheProcess(t *testing.T) {
	s := StatusOf(errors.New("open /var/lib/x: permission denied"))
	if s.Code != 500 || s.Message != "internal error; the hub's log has it" {
		t.Errorf("got %+v, want a plain internal error", s)
	}
}

func TestClassIsFoundThroughWrapping(t *testing.T) {
	base := io.ErrUnexpectedEOF
	err := fmt.Errorf("a: %w", Conflict.Errorf("b: %w", base))
	if ClassOf(err) != Conflict || !errors.Is(err, Conflict) || errors.Is(err, NotFound) || !errors.Is(err, base) {
		t.Errorf("%v: class %s", err, ClassOf(err))
	}
	if err.Error() != "a: b: unexpected EOF" {
		t.Errorf("text is %q", err)
	}
	for _, c := range []struct {
		err  error
		want Class
	}{
		{nil, ""}, {base, Internal}, {context.DeadlineExceeded, Timeout}, {fmt.Errorf("x: %w", context.Canceled), Timeout}, {NotFound, NotFound},
		{Invalid.Wrap(Conflict.Errorf("x")), Invalid}, {Invalid.Wrap(nil), ""},
	} {
		if got := ClassOf(c.err); got != c.want {
			t.Errorf("ClassOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	if !Is(err, NotFound, Conflict) || Is(err, NotFound) || Is(nil, Internal) {
		t.Error("Is does not tell the classes")
	}
}

func TestOnlyTransientFailuresAreRetryable(t *testing.T) {
	want := map[Class]bool{TooManyRequests: true, Unavailable: true, Timeout: true, Ahead: true, Unreachable: true}
	for _, row := range codes() {
		if got := Retryable(row.class.Errorf("x")); got != want[row.class] {
			t.Errorf("Retryable(%s) = %v, want %v", row.class, got, want[row.class])
		}
	}
	if Retryable(nil) || Retryable(errors.New("x")) {
		t.Error("success or an unknown failure is retryable")
	}
	if e := NoQuorum("2 of 3 members away"); e.Class != Unavailable || RetryAfter(fmt.Errorf("x: %w", e)) == 0 {
		t.Errorf("no quorum is %+v, want Unavailable with a time to wait", e)
	}
}

func TestCodesOfTheOtherEdges(t *testing.T) {
	for _, c := range []struct {
		class      Class
		coap, mqtt uint8
		coapBack   Class
		mqttBack   Class
	}{
		{NotFound, 4<<5 | 4, 0x90, NotFound, NotFound},
		{Forbidden, 4<<5 | 3, 0x87, Forbidden, Forbidden},
		{TooLarge, 4<<5 | 13, 0x95, TooLarge, TooLarge},
		{TooManyRequests, 4<<5 | 29, 0x97, TooManyRequests, TooManyRequests},
		{Unavailable, 5<<5 | 3, 0x88, Unavailable, Unavailable},
		{Internal, 5 << 5, 0x80, Internal, Internal},
		{Invalid, 4<<5 | 22, 0x99, Invalid, Invalid},
		{Ahead, 5<<5 | 4, 0x89, Timeout, Timeout},
	} {
		if c.class.CoAP() != c.coap || c.class.MQTT() != c.mqtt {
			t.Errorf("%s: CoAP %#x, MQTT %#x; want %#x, %#x", c.class, c.class.CoAP(), c.class.MQTT(), c.coap, c.mqtt)
		}
		if got := OfCoAP(c.coap); got != c.coapBack {
			t.Errorf("OfCoAP(%#x) = %s, want %s", c.coap, got, c.coapBack)
		}
		if got := OfMQTT(c.mqtt); got != c.mqttBack {
			t.Errorf("OfMQTT(%#x) = %s, want %s", c.mqtt, got, c.mqttBack)
		}
	}
	for status, want := range map[int]Class{404: NotFound, 409: Conflict, 418: BadRequest, 408: Timeout, 502: Unavailable, 503: Unavailable, 504: Timeout, 599: Internal, 302: Internal} {
		if got := OfHTTP(status); got != want {
			t.Errorf("OfHTTP(%d) = %s, want %s", status, got, want)
		}
	}
	if OfCoAP(4<<5|31) != BadRequest || OfCoAP(5<<5|31) != Internal || OfMQTT(0xff) != Internal {
		t.Error("unknown codes: want BadRequest for 4.31, Internal for 5.31 and 0xff")
	}
}

func TestExitCodesAreThoseOfTheManual(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {Invalid.Errorf("x"), 1}, {NotFound.Errorf("x"), 1}, {context.DeadlineExceeded, 4}, {Timeout.Errorf("x"), 4},
		{Unreachable.Errorf("x"), 7}, {Unavailable.Errorf("x"), 7}, {Conflict.Errorf("x"), 8}, {AlreadyExists.Errorf("x"), 8}, {Unauthorized.Errorf("x"), 9}, {Forbidden.Errorf("x"), 9},
		{fmt.Errorf("y: %w", WithExit(ExitFailed, Conflict.Errorf("x"))), 5},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	if WithExit(ExitUsage, nil) != nil {
		t.Error("WithExit makes an error of nil")
	}
}

func TestMessagesSayWhatWhereAndHowMuch(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{SizeLimit("object", 2097152, 1048576), "object is 2097152 bytes; the limit is 1048576 bytes"},
		{InvalidObject("Workload", "a", []Cause{{Field: "spec.x", Message: "is missing"}, {Message: "bad"}}), `Workload "a" is invalid: spec.x: is missing; bad`},
		{ObjectExists("devices", "pi"), `devices "pi" already exists`},
		{ObjectConflict("devices", "pi", "resourceVersion is 5, not 4"), `devices "pi": resourceVersion is 5, not 4; read it again and repeat the change`},
		{&Error{Class: Forbidden}, "Forbidden"},
	} {
		if c.err.Error() != c.want {
			t.Errorf("got %q, want %q", c.err, c.want)
		}
	}
}
