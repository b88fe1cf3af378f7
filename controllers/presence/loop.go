package presence

import (
	"context"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/retry"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
	"github.com/drover-fleet/drover/controllers/reconcile"
)

const (
	// tick is how often the contacts are looked at.
	tick = time.Second
	// lagged is how late a tick may be before this hub must not trust its own ears.
	lagged = 5 * time.Second
	// batch is how many devices change in one transaction.
	batch = 200
)

// Config is what the loop needs beyond the usual.
type Config struct {
	Contacts Contacts
	Limits   Limits // zero: 5m30s and 10m30s, for devices that are asked to call every five minutes
	Member   string // name of this hub member, for messages
}

type loop struct {
	reconcile.Deps
	Config
	devices *cache.Informer
	// judging and last belong to the single worker: since when silence counts, and when the last pass was.
	judging, last time.Time
}

// New makes the loop. It has one key and looks at all devices at a time.
func New(d reconcile.Deps, c Config) *reconcile.Loop {
	if c.Limits.Late <= 0 || c.Limits.Offline <= c.Limits.Late {
		c.Limits = Limits{Late: 5*time.Minute + 30*time.Second, Offline: 10*time.Minute + 30*time.Second}
	}
	l := &loop{Deps: d, Config: c, devices: d.Devices()}
	r := reconcile.NewLoop("presence", d, l.reconcile)
	r.Backoff = retry.Policy{Base: 100 * time.Millisecond, Max: 5 * time.Second} // a fleet is not left unjudged for long
	r.Add(reconcile.Key{Name: "fleet"}, "")
	return r
}

func (l *loop) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := l.Now()
	if gap := now.Sub(l.last); l.judging.IsZero() || gap > lagged || gap < 0 {
		l.judging = now
	}
	l.last = now
	v := view{
		devices: cache.List[*api.Device](l.devices), contacts: l.Contacts, limits: l.Limits,
		member: l.Member, now: now, judging: l.judging,
	}
	err := l.write(ctx, v.changes())
	l.last = l.Now() // writing is no lag
	return reconcile.Result{After: tick}, err
}

// write writes the conditions in batches. A batch that lost a race is written one by one; who lost again is judged anew.
func (l *loop) write(ctx context.Context, devices []*api.Device) error {
	for len(devices) > 0 {
		n := min(batch, len(devices))
		items := make([]client.TxItem, 0, n)
		for _, d := range devices[:n] {
			items = append(items, reconcile.Status(d))
		}
		devices = devices[n:]
		_, err := l.Write(ctx, "", items...)
		if lost(err) {
			err = l.writeEach(ctx, items)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) writeEach(ctx context.Context, items []client.TxItem) error {
	for _, it := range items {
		if _, err := l.Write(ctx, "", it); err != nil && !lost(err) {
			return err
		}
	}
	return nil
}

// lost reports a write that others made void: the device changed or went since it was read.
func lost(err error) bool { return fault.Is(err, fault.Conflict, fault.NotFound) }
