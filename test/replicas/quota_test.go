package replicas

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

// TestQuotaOf100Under50WritersOnThreeMembers: exactly 100 exist, also while others free places and take them again.
func TestQuotaOf100Under50WritersOnThreeMembers(t *testing.T) {
	const writers, each, limit = 50, 3, 100
	c := start(t)
	var members []client.Client
	for _, m := range c.Members {
		members = append(members, hubOn(t, m).As(registry.Actor{Name: "user:" + m.Name}))
	}
	n := api.MilliQuantity(limit * 1000)
	quota := &api.ResourceQuota{Metadata: api.ObjectMeta{Name: "q", Namespace: "default"}, Spec: api.ResourceQuotaSpec{Hard: api.ResourceList{"count/configmaps": n}}}
	if _, err := members[0].Create(t.Context(), quota, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var made, freed, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				m := &api.ConfigMap{Metadata: api.ObjectMeta{Name: fmt.Sprintf("c-%d-%d", w, i), Namespace: "default"}}
				_, err := members[w%3].Create(t.Context(), m, client.WriteOptions{})
				switch {
				case client.OverQuota(err):
					refused.Add(1)
					continue
				case err != nil:
					t.Errorf("writer %d: %v", w, err)
					continue
				}
				made.Add(1)
				if w%10 == 0 { // gives it back, through another member
					if err := members[(w+1)%3].Delete(t.Context(), api.Ref{Kind: api.KindConfigMap, Namespace: "default", Name: m.Metadata.Name}, client.DeleteOptions{}); err != nil {
						t.Errorf("writer %d: %v", w, err)
					}
					freed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if refused.Load() == 0 || made.Load()+refused.Load() != writers*each {
		t.Errorf("got %d made and %d refused of %d, want all answered and some refused", made.Load(), refused.Load(), writers*each)
	}
	for i, m := range members {
		l, err := m.List(t.Context(), api.KindConfigMap, client.ListOptions{Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		o, err := m.Get(t.Context(), api.Ref{Kind: api.KindResourceQuota, Namespace: "default", Name: "q"}, client.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		used := o.(*api.ResourceQuota).Status.Used["count/configmaps"]
		if n := int64(len(l.Items)); n > limit || n != made.Load()-freed.Load() || used.Bytes() != n {
			t.Errorf("member %d: got %d config maps and %s used, want %d of each and at most %d", i, n, used.String(), made.Load()-freed.Load(), limit)
		}
	}
	// What was freed meanwhile may be taken: fill up, and not one more.
	full := 0
	for i := range limit + 1 {
		m := &api.ConfigMap{Metadata: api.ObjectMeta{Name: fmt.Sprint("more-", i), Namespace: "default"}}
		if _, err := members[i%3].Create(t.Context(), m, client.WriteOptions{}); err == nil {
			full++
		} else if !client.OverQuota(err) {
			t.Fatal(err)
		}
	}
	if want := limit - int(made.Load()-freed.Load()); full != want {
		t.Errorf("got %d more, want the %d that were left", full, want)
	}
	c.WaitEqual()
}
