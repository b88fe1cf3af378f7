package hub

import (
	"context"
	"fmt"
	"io"

	"github.com/drover-fleet/drover/hub/kv"
	"github.com/drover-fleet/drover/store"
)

// KeyQuery asks for keys below the objects, for when an object cannot be read or a member is doubted. It only reads: what is
// written past the registry breaks the rules that the registry holds.
type KeyQuery struct {
	Dir    string // of a member, whose certificate is shown
	Member string // host:port of the API of the member to ask; "" = that of Dir
	Prefix string
	Limit  int  // keys listed; 0 = all
	Stale  bool // what the member has now, without asking the majority
	Values bool // print values too, as they are stored: secrets are sealed
}

// ListKeys prints a line for each key.
func ListKeys(ctx context.Context, q KeyQuery, w io.Writer) error {
	c, err := DialStore(ctx, q.Dir, q.Member)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it only read
	rq := store.RangeRequest{Start: q.Prefix, End: store.PrefixEnd(q.Prefix)}
	for left := q.Limit; ; {
		rq.Limit = left
		got, err := c.Range(ctx, rq, q.Stale)
		if err != nil {
			return err
		}
		for i := range got.KVs {
			if err := printKey(w, "", &got.KVs[i], q.Values); err != nil {
				return err
			}
		}
		left -= len(got.KVs)
		if !got.More || q.Limit > 0 && left <= 0 {
			return nil
		}
		left = max(0, left)
		rq.Start, rq.Revision = got.KVs[len(got.KVs)-1].Key+"\x00", got.Revision
	}
}

// WatchKeys prints a line for each change from now on, until ctx ends.
func WatchKeys(ctx context.Context, q KeyQuery, w io.Writer) error {
	c, err := DialStore(ctx, q.Dir, q.Member)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it only read
	in, err := c.Watch(ctx, store.WatchRequest{Start: q.Prefix, End: store.PrefixEnd(q.Prefix)}, false)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		b, err := in.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := printBatch(w, &b, q.Values); err != nil {
			return err
		}
	}
}

func printBatch(w io.Writer, b *store.Batch, value bool) error {
	for i := range b.Events {
		verb := "put "
		if b.Events[i].Type == store.OpDelete {
			verb = "delete "
		}
		if err := printKey(w, verb, &b.Events[i].KV, value); err != nil {
			return err
		}
	}
	return nil
}

// printKey quotes the value: it may be binary.
func printKey(w io.Writer, verb string, kv *store.KV, value bool) error {
	line := fmt.Sprintf("%s%q revision=%s version=%d bytes=%d", verb, kv.Key, kv.ModRevision, kv.Version, len(kv.Value))
	if value {
		line += fmt.Sprintf(" value=%q", kv.Value)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// DialStore connects to a member's store with the certificate of the member whose directory is given; addr "" is that member
// itself.
func DialStore(ctx context.Context, path, addr string) (*kv.Client, error) {
	d := dir(path)
	id, err := d.loadIdentity()
	if err != nil {
		return nil, err
	}
	creds, err := d.loadCredentials()
	if err != nil {
		return nil, err
	}
	if creds == nil {
		return nil, errUnborn
	}
	return kv.Dial(ctx, orElse(addr, id.API), newKeyring(creds).toMembers().TLSClientConfig)
}
