package tokens

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store"
)

const (
	// KeyPrefix is that of the records that hold keys.
	KeyPrefix = "~token/"
	// rotateAfter is how long a key signs.
	rotateAfter = 30 * 24 * time.Hour
	// keepAfter is how long a key that signs no more is kept: the longest life of a token, and a day for members whose clocks differ.
	keepAfter = MaxLife + 24*time.Hour
	maxRecord = 4 << 10
	maxKeys   = 100
)

// Backend is the part of a hub member's replica that keys are kept in.
type Backend interface {
	store.Reader
	Barrier(ctx context.Context) error
	Propose(ctx context.Context, c *store.Command) (store.Result, error)
}

// Sealer encrypts what must not stand in the log in clear. All members have the same keys.
type Sealer interface {
	SealBy(id string, plain []byte, context string) ([]byte, error)
	Open(sealed []byte, context string) ([]byte, error)
}

// record is what is kept of a key.
type record struct {
	Public  []byte `cbor:"1,keyasint"` // PKIX
	Private []byte `cbor:"2,keyasint"` // PKCS#8, sealed
	Made    int64  `cbor:"3,keyasint"` // Unix seconds, by the clock of the member that made it
}

// key is a record, read.
type key struct {
	id      string
	made    time.Time
	private *ecdsa.PrivateKey
}

// ring reads and makes keys. Keys that were read are remembered by the bytes of their records.
type ring struct {
	b      Backend
	sealer Sealer
	actor  string
	now    func() time.Time

	mu    sync.Mutex
	read  map[string]remembered // by record key
	asked time.Time             // when a key that is not here was last asked for
}

// askEvery is how often a key that is not here makes this member catch up with the others. Whoever has no token at all may send ids of
// keys, and each would cost a round among members.
const askEvery = 100 * time.Millisecond

func (r *ring) mayAsk() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.asked) < askEvery {
		return false
	}
	r.asked = now
	return true
}

type remembered struct {
	value []byte
	key   *key
}

// byID finds a key that this member has; nil when it has none of the id.
func (r *ring) byID(ctx context.Context, id string) (*key, error) {
	if !soundID(id) {
		return nil, nil
	}
	res, err := r.b.Range(ctx, store.RangeRequest{Start: KeyPrefix + id})
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	if len(res.KVs) == 0 {
		return nil, nil
	}
	return r.open(&res.KVs[0])
}

// soundID: what stands in a token's header is used as a part of a record's name.
func soundID(id string) bool {
	return len(id) >= 8 && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	})
}

// all are the keys that this member has, newest first.
func (r *ring) all(ctx context.Context) ([]*key, error) {
	res, err := r.b.Range(ctx, store.RangeRequest{Start: KeyPrefix, End: store.PrefixEnd(KeyPrefix), Limit: maxKeys})
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	var keys []*key
	for i := range res.KVs {
		k, err := r.open(&res.KVs[i])
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *key) int {
		return cmp.Or(b.made.Compare(a.made), strings.Compare(a.id, b.id))
	})
	return keys, nil
}

func (r *ring) open(kv *store.KV) (*key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.read[kv.Key]; ok && bytes.Equal(have.value, kv.Value) {
		return have.key, nil
	}
	var rec record
	if err := wire.Decode(kv.Value, maxRecord, &rec); err != nil {
		return nil, fmt.Errorf("record %s: %w", kv.Key, err)
	}
	der, err := r.sealer.Open(rec.Private, kv.Key)
	if err != nil {
		return nil, fmt.Errorf("open record %s: %w", kv.Key, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", kv.Key, err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fault.Internal.Errorf("record %s holds no key on P-256", kv.Key)
	}
	k := &key{id: strings.TrimPrefix(kv.Key, KeyPrefix), made: time.Unix(rec.Made, 0), private: private}
	if r.read == nil || len(r.read) > maxKeys {
		r.read = map[string]remembered{}
	}
	r.read[kv.Key] = remembered{bytes.Clone(kv.Value), k}
	return k, nil
}

// signing is the key to sign with: the newest, or a new one where that has signed for long enough.
func (r *ring) signing(ctx context.Context) (*key, error) {
	for fresh := false; ; fresh = true {
		keys, err := r.all(ctx)
		if err != nil {
			return nil, err
		}
		if len(keys) > 0 && r.now().Before(keys[0].made.Add(rotateAfter)) {
			return keys[0], nil
		}
		if fresh {
			return r.make(ctx, keys, false)
		}
		if err := r.b.Barrier(ctx); err != nil {
			return nil, err
		}
	}
}

// make adds a key, and drops those by which nothing can be good any more, or all others.
func (r *ring) make(ctx context.Context, old []*key, forget bool) (*key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	k := &key{id: rand.Text(), made: r.now().Truncate(time.Second), private: private}
	for range keepTries {
		if err = r.keep(ctx, k, old, forget); !fault.Is(err, fault.Conflict) {
			break
		}
		if err := r.b.Barrier(ctx); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keep a signing key: %w", err)
	}
	return k, nil
}

// keepTries bounds how often a new key is sealed again because another sealing key took over meanwhile.
const keepTries = 5

// keep writes a key, sealed by the key that seals. fault.Conflict: another one seals by now; what was sealed by the one before would be missed
// by those who seal everything again, and be lost with it.
func (r *ring) keep(ctx context.Context, k *key, old []*key, forget bool) error {
	sealing, at, err := registry.ReadSealing(ctx, r.b)
	if err != nil {
		return err
	}
	value, err := r.seal(k, sealing.Active)
	if err != nil {
		return err
	}
	name := KeyPrefix + k.id
	c := &store.Command{
		Actor: r.actor, If: []store.Precondition{{Key: name}, {Key: registry.KeySealing, ModRevision: at}},
		Ops: []store.Op{{Type: store.OpPut, Key: name, Value: value, Note: store.Note{Verb: "create", Object: name}}},
	}
	for _, o := range old {
		if forget || k.made.After(o.made.Add(rotateAfter+keepAfter)) {
			c.Ops = append(c.Ops, store.Op{Type: store.OpDelete, Key: KeyPrefix + o.id, Note: store.Note{Verb: "delete", Object: KeyPrefix + o.id}})
		}
	}
	res, err := r.b.Propose(ctx, c)
	if err == nil {
		err = res.Err
	}
	var moved *store.ConflictError
	if errors.As(err, &moved) {
		return fault.Conflict.Wrap(err)
	}
	return err
}

func (r *ring) seal(k *key, by string) ([]byte, error) {
	private, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encode signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&k.private.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode signing key: %w", err)
	}
	sealed, err := r.sealer.SealBy(by, private, KeyPrefix+k.id)
	if err != nil {
		return nil, fmt.Errorf("seal signing key: %w", err)
	}
	return wire.Encode(record{Public: public, Private: sealed, Made: k.made.Unix()})
}
