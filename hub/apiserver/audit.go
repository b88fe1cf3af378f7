package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/drover-fleet/drover/client/remote"
)

// Lengths of a request id that a client may choose, in bytes. Shorter ones would collide by chance.
const (
	minRequestID = 16
	maxRequestID = 128
)

// nameRequest takes the client's request id when it is a sound one, else makes one, and says it back.
func (x *exchange) nameRequest() {
	x.id = x.r.Header.Get(remote.HeaderRequestID)
	if !soundRequestID(x.id) {
		x.id = x.s.cfg.NewID()
	}
	x.w.Header().Set(remote.HeaderRequestID, x.id)
	x.w.Header().Set("Audit-Id", x.id)
}

func soundRequestID(id string) bool {
	if len(id) < minRequestID || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// receipt puts a write on record before it is tried, so that a crash in the middle is on record too.
func (x *exchange) receipt() {
	if x.route.writes() {
		x.log(slog.LevelInfo, "request received")
	}
}

// audit puts the outcome on record: of every write, every refusal and every copy of the whole state; reads and watches at debug level.
func (x *exchange) audit(took time.Duration) {
	level := slog.LevelInfo
	if x.w.status < http.StatusBadRequest && !x.route.writes() && !x.route.streams() {
		level = slog.LevelDebug
	}
	x.log(level, "request done", slog.Int("code", x.w.status), slog.String("outcome", x.w.outcome()), slog.Int64("ms", took.Milliseconds()))
}

func (x *exchange) log(level slog.Level, msg string, more ...slog.Attr) {
	attrs := []slog.Attr{
		slog.String("request_id", x.id),
		slog.String("actor", x.user.Actor()),
		slog.String("verb", x.route.verb),
		slog.String("object", x.route.object()),
		slog.String("source", x.r.RemoteAddr),
	}
	x.s.cfg.Logger.LogAttrs(context.WithoutCancel(x.r.Context()), level, msg, append(attrs, more...)...)
}
