package main

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-fleet/drover/test/bench/store/load"
)

type session struct{ c *clientv3.Client }

func dial(ctx context.Context, s *load.Spec, endpoint string) (load.Session, error) {
	c, err := connect(s, endpoint)
	if err != nil {
		return nil, err
	}
	return session{c}, ctx.Err()
}

func connect(s *load.Spec, endpoint string) (*clientv3.Client, error) {
	info := transport.TLSInfo{CertFile: s.Cert, KeyFile: s.Key, TrustedCAFile: s.CA}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Logger: zap.NewNop()})
}

func (s session) Close() error { return s.c.Close() }

func (s session) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	r, err := s.c.Put(ctx, key, string(value))
	if err != nil {
		return 0, err
	}
	return uint64(r.Header.Revision), nil
}

func (s session) PutIf(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	r, err := s.c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(version))).Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil {
		return 0, err
	}
	if !r.Succeeded {
		return 0, fmt.Errorf("%s is not at %d", key, version)
	}
	return uint64(r.Header.Revision), nil
}

func (s session) Batch(ctx context.Context, keys []string, value []byte) error {
	ops := make([]clientv3.Op, 0, len(keys))
	for _, k := range keys {
		ops = append(ops, clientv3.OpPut(k, string(value)))
	}
	_, err := s.c.Txn(ctx).Then(ops...).Commit()
	return err
}

func (s session) Get(ctx context.Context, key string, stale bool) error {
	var opts []clientv3.OpOption
	if stale {
		opts = append(opts, clientv3.WithSerializable())
	}
	r, err := s.c.Get(ctx, key, opts...)
	if err != nil {
		return err
	}
	if len(r.Kvs) != 1 {
		return fmt.Errorf("%s: got %d keys, want 1", key, len(r.Kvs))
	}
	return nil
}

// List reads all keys with the prefix at one revision.
func (s session) List(ctx context.Context, prefix string) (int, error) {
	r, err := s.c.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	return len(r.Kvs), nil
}

func (s session) Watch(ctx context.Context, key string, prefix bool, ready func(), event func([]byte)) error {
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if prefix {
		opts = append(opts, clientv3.WithPrefix())
	}
	for r := range s.c.Watch(ctx, key, opts...) {
		if err := r.Err(); err != nil {
			return err
		}
		if r.Created {
			ready()
		}
		for _, e := range r.Events {
			event(e.Kv.Value)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("watch ended")
}
