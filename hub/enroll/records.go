package enroll

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/api/wire"
	"github.com/drover-fleet/drover/store"
)

// Keys of the hub's internal records, and what the CA's key is sealed with as context.
const (
	keyCA      = "~ca"
	keyCluster = "~cluster"
	prefixJoin = "~join/"   // and a key's fingerprint: the name under which the key joined
	prefixKey  = "~member/" // and a member's name: the fingerprint of the key that it has now
	maxRecord  = 64 << 10
)

// Records keeps internal records of the hub through consensus.
type Records interface {
	// Read is linearizable; ok is false when there is no such record.
	Read(ctx context.Context, key string) (value []byte, ok bool, err error)
	// Create adds all of them, or none; fault.AlreadyExists when one of the keys is taken.
	Create(ctx context.Context, records map[string][]byte) error
	// Put sets a record, whatever it was.
	Put(ctx context.Context, key string, value []byte) error
}

// Sealer encrypts what must not stand in the log in clear. All members have the same keys.
type Sealer interface {
	Seal(plain []byte, context string) ([]byte, error)
	Open(sealed []byte, context string) ([]byte, error)
}

// Backend is the part of a hub member's replica that Records need.
type Backend interface {
	store.Reader
	Barrier(ctx context.Context) error
	Propose(ctx context.Context, c *store.Command) (store.Result, error)
}

// NewRecords keeps records in a replica, as the named member.
func NewRecords(b Backend, member string) Records { return &records{b, "hub:" + member} }

type records struct {
	b     Backend
	actor string
}

func (r *records) Read(ctx context.Context, key string) ([]byte, bool, error) {
	if err := r.b.Barrier(ctx); err != nil {
		return nil, false, err
	}
	res, err := r.b.Range(ctx, store.RangeRequest{Start: key})
	if err != nil {
		return nil, false, fmt.Errorf("read record %s: %w", key, err)
	}
	if len(res.KVs) == 0 {
		return nil, false, nil
	}
	return res.KVs[0].Value, true, nil
}

func (r *records) Create(ctx context.Context, values map[string][]byte) error {
	c := &store.Command{Actor: r.actor}
	for k, v := range values {
		c.If = append(c.If, store.Precondition{Key: k})
		c.Ops = append(c.Ops, store.Op{Type: store.OpPut, Key: k, Value: v, Note: store.Note{Verb: "create", Object: k}})
	}
	res, err := r.b.Propose(ctx, c)
	if err == nil {
		err = res.Err
	}
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return fault.AlreadyExists.Errorf("record %s exists already", conflict.Key)
	}
	return err
}

func (r *records) Put(ctx context.Context, key string, value []byte) error {
	res, err := r.b.Propose(ctx, &store.Command{
		Actor: r.actor, Ops: []store.Op{{Type: store.OpPut, Key: key, Value: value, Note: store.Note{Verb: "update", Object: key}}},
	})
	if err == nil {
		err = res.Err
	}
	return err
}

// ForgetJoins forgets the keys by which a member has joined, and which it has now. Whoever holds one of them needs a token with uses left
// from then on, as a stranger does.
func ForgetJoins(ctx context.Context, b Backend, actor, member string) error {
	if err := b.Barrier(ctx); err != nil {
		return err
	}
	c := &store.Command{Actor: actor, Ops: []store.Op{{Type: store.OpDelete, Key: prefixKey + member, Note: store.Note{Verb: "delete", Object: prefixKey + member}}}}
	rq := store.RangeRequest{Start: prefixJoin, End: store.PrefixEnd(prefixJoin), Limit: forgetPage}
	for more := true; more; {
		res, err := b.Range(ctx, rq)
		if err != nil {
			return fmt.Errorf("read who joined: %w", err)
		}
		for i := range res.KVs {
			if kv := &res.KVs[i]; string(kv.Value) == member {
				c.Ops = append(c.Ops, store.Op{Type: store.OpDelete, Key: kv.Key, Note: store.Note{Verb: "delete", Object: kv.Key}})
			}
			rq.Start = res.KVs[i].Key + "\x00"
		}
		rq.Revision, more = res.Revision, res.More
	}
	res, err := b.Propose(ctx, c)
	if err == nil {
		err = res.Err
	}
	return err
}

const forgetPage = 256 // records read at a time

// caRecord is what ~ca holds.
type caRecord struct {
	Certificate []byte `cbor:"1,keyasint"` // DER
	SealedKey   []byte `cbor:"2,keyasint"` // PKCS#8, sealed
}

// clusterRecord is what ~cluster holds.
type clusterRecord struct {
	ClusterID string `cbor:"1,keyasint"`
}

// Options of Open. Records and Sealer are required.
type Options struct {
	Records Records
	Sealer  Sealer
	Now     func() time.Time // nil = time.Now
	Built   time.Time        // when this program was built; a clock before it is wrong. Zero = not known
}

// Open reads the cluster's authority, or makes it when there is none yet. Of members that make it at once one wins, and the
// others read the winner's.
func Open(ctx context.Context, o Options) (*Authority, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	a, err := read(ctx, o)
	if a != nil || err != nil {
		return a, err
	}
	if a, err = newAuthority(o.Now, o.Built); err != nil {
		return nil, err
	}
	err = create(ctx, o, a)
	if err == nil {
		return a, nil
	}
	if !fault.Is(err, fault.AlreadyExists) {
		return nil, fmt.Errorf("keep the cluster's CA: %w", err)
	}
	if a, err = read(ctx, o); a == nil && err == nil {
		err = fault.Internal.Errorf("another member made the cluster's CA, but it cannot be read")
	}
	return a, err
}

func create(ctx context.Context, o Options, a *Authority) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	sealed, err := o.Sealer.Seal(pkcs8, keyCA)
	if err != nil {
		return fmt.Errorf("seal key: %w", err)
	}
	ca, err := wire.Encode(caRecord{a.cert.Raw, sealed})
	if err != nil {
		return err
	}
	cluster, err := wire.Encode(clusterRecord{a.clusterID})
	if err != nil {
		return err
	}
	return o.Records.Create(ctx, map[string][]byte{keyCA: ca, keyCluster: cluster})
}

// read returns nil without an error when there is no CA yet.
func read(ctx context.Context, o Options) (*Authority, error) {
	data, ok, err := o.Records.Read(ctx, keyCA)
	if err != nil || !ok {
		return nil, err
	}
	var rec caRecord
	if err := wire.Decode(data, maxRecord, &rec); err != nil {
		return nil, fmt.Errorf("record %s: %w", keyCA, err)
	}
	pkcs8, err := o.Sealer.Open(rec.SealedKey, keyCA)
	if err != nil {
		return nil, fmt.Errorf("open the CA's key: %w", err)
	}
	key, err := x509.ParsePKCS8PrivateKey(pkcs8)
	if err != nil {
		return nil, fmt.Errorf("read the CA's key: %w", err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fault.Internal.Errorf("the CA's key is a %T, want ECDSA", key)
	}
	cert, err := x509.ParseCertificate(rec.Certificate)
	if err != nil {
		return nil, fmt.Errorf("read the CA's certificate: %w", err)
	}
	return &Authority{clusterID: cert.Subject.SerialNumber, cert: cert, key: ec, now: o.Now}, nil
}
