package audit

import (
	"context"
	"fmt"
	"testing"

	"github.com/drover-fleet/drover/client/auditlog"
)

// BenchmarkReceipt is what a write waits for its receipt, alone and beside others that share a sync.
func BenchmarkReceipt(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(writers, "writers"), func(b *testing.B) {
			l, err := Open(Config{Dir: b.TempDir(), Member: "h1"})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					b.Error(err)
				}
			}()
			b.SetParallelism((writers + 1) / 2) // of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := auditlog.Record{RequestID: "0123456789abcdef", Actor: "user:alice", Verb: "create", Path: "/api/v1/namespaces/default/configmaps"}
					if err := l.Receipt(context.Background(), r); err != nil {
						b.Error(err)
					}
					l.Outcome(r)
				}
			})
		})
	}
}
