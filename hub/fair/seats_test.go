package fair

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-fleet/drover/api/fault"
)

// load is the load of a class now.
func load(s *Seats, of Class) Load {
	for _, l := range s.Load() {
		if l.Class == of {
			return l
		}
	}
	return Load{}
}

func TestOneClientWithAThousandListsRaisesNobodyElsesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Queue: 1000, Wait: time.Hour})
		const service = 300 * time.Millisecond
		var group sync.WaitGroup
		for range 1000 {
			group.Go(func() {
				leave, err := s.Enter(t.Context(), People, "user:hog lists", MaxCost)
				if err != nil {
					t.Errorf("a list: %v", err)
					return
				}
				time.Sleep(service)
				leave()
			})
		}
		synctest.Wait()
		if l := load(s, People); l.Used != l.Seats/2 || l.Waiting != 1000-l.Used/MaxCost {
			t.Errorf("got %+v, want half of the seats in use by the one, and the rest of its lists waiting", l)
		}
		for _, who := range []struct {
			class Class
			flow  string
		}{{Devices, "device:pi-07"}, {Operations, "user:admin"}, {People, "user:operator"}, {People, "user:hog"}, {Members, "hub:h2"}} {
			began := time.Now()
			leave, err := s.Enter(t.Context(), who.class, who.flow, 1)
			if err != nil {
				t.Errorf("%v: %v", who, err)
				continue
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("%v waited %s, want no wait", who, waited)
			}
			leave()
		}
		group.Wait()
		if l := load(s, People); l.Used != 0 || l.Waiting != 0 || len(s.classes[People].flows) != 0 {
			t.Errorf("at the end: got %+v and %d flows, want nothing", l, len(s.classes[People].flows))
		}
	})
}

func TestFlowsOfAFullClassTakeTurnsByWhatTheyCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Seats: map[Class]int{People: 2 * MaxCost}, Queue: 1000, Wait: time.Hour})
		served := map[string]int{}
		var mu sync.Mutex
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var group sync.WaitGroup
		for _, f := range []struct {
			name string
			cost int
		}{{"dear-1", MaxCost}, {"dear-2", MaxCost}, {"cheap-1", 1}, {"cheap-2", 1}} {
			for range 100 {
				group.Go(func() {
					for ctx.Err() == nil {
						leave, err := s.Enter(ctx, People, f.name, f.cost)
						if err != nil {
							return
						}
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						served[f.name] += f.cost
						mu.Unlock()
						leave()
					}
				})
			}
		}
		group.Wait()
		least, most := 1<<30, 0
		for _, n := range served {
			least, most = min(least, n), max(most, n)
		}
		if len(served) != 4 || least*2 < most {
			t.Errorf("seats by flow: got %v, want about the same", served)
		}
	})
}

func TestAFullClassTakesNoSeatOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, full := range Classes() {
			s := New(Config{Seats: map[Class]int{full: 2}, Wait: time.Second})
			for _, flow := range []string{"a", "b"} {
				if _, err := s.Enter(t.Context(), full, flow, 1); err != nil {
					t.Fatalf("%s: %v", full, err)
				}
			}
			if _, err := s.Enter(t.Context(), full, "c", 1); !fault.Is(err, fault.TooManyRequests) {
				t.Errorf("a third of %s, which has 2 seats: got %v, want 429", full, err)
			}
			for _, l := range s.Load() {
				if l.Class != full && l.Used > 0 {
					t.Errorf("%s full: %d seats of %s are in use, want none", full, l.Used, l.Class)
				}
			}
		}
	})
}

func TestWaitingIsBoundedInTimeAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusals{}
		s := New(Config{Seats: map[Class]int{People: 2}, Queue: 3, Wait: time.Second, Refused: func(why string) { r.note(Refusal{Reason: why}) }})
		hold, err := s.Enter(t.Context(), People, "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 4)
		for range 4 {
			go func() {
				leave, err := s.Enter(t.Context(), People, "a", 1)
				if err == nil {
					leave()
				}
				results <- err
			}()
		}
		for range 4 {
			err := <-results
			if after := fault.RetryAfter(err); !fault.Is(err, fault.TooManyRequests) || after < time.Second || after > 5*time.Second {
				t.Errorf("got %v with Retry-After %s, want 429 with 1 s to 5 s", err, after)
			}
		}
		if r.seen[ReasonQueueFull] != 1 || r.seen[ReasonQueueWait] != 3 {
			t.Errorf("got %v, want 1 for a full queue and 3 for their wait", r.seen)
		}
		hold()
		hold() // giving back twice is giving back once
		if l := load(s, People); l.Used != 0 || l.Waiting != 0 {
			t.Errorf("at the end: got %+v, want nothing", l)
		}
	})
}

// TestSeatsAreNeverGivenTwiceNorLost runs random requests, some of which give up, and judges at each moment.
func TestSeatsAreNeverGivenTwiceNorLost(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := New(Config{Seats: map[Class]int{Devices: 20}, Queue: 50, Wait: 50 * time.Millisecond})
		var group sync.WaitGroup
		for range 2000 {
			flow, cost := fmt.Sprint(random.IntN(7)), 1+random.IntN(MaxCost)
			hold, patience := time.Duration(random.IntN(20))*time.Millisecond, time.Duration(1+random.IntN(60))*time.Millisecond
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				leave, err := s.Enter(ctx, Devices, flow, cost)
				if err != nil {
					return
				}
				if l := load(s, Devices); l.Used < 1 || l.Used > l.Seats {
					t.Errorf("got %+v", l)
				}
				time.Sleep(hold)
				leave()
			})
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		}
		group.Wait()
		c := s.classes[Devices]
		if c.used != 0 || c.waiting != 0 || len(c.flows) != 0 || len(c.ring) != 0 {
			t.Errorf("at the end: %d used, %d waiting, %d flows, %d in the ring; want none", c.used, c.waiting, len(c.flows), len(c.ring))
		}
	})
}

func TestSharesAreBoundedInAllAndForEach(t *testing.T) {
	s := NewShares("watches", 3, 2, nil)
	var release []func()
	for _, tt := range []struct {
		who  string
		want bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		r, err := s.Take(tt.who)
		if (err == nil) != tt.want {
			t.Errorf("%s: got %v, want %t", tt.who, err, tt.want)
		}
		if err == nil {
			release = append(release, r)
		} else if !fault.Is(err, fault.TooManyRequests) {
			t.Errorf("%s: got %v, want 429", tt.who, err)
		}
	}
	for _, r := range release {
		r()
		r()
	}
	if s.Used() != 0 || len(s.held) != 0 {
		t.Errorf("got %d used and %v, want nothing", s.Used(), s.held)
	}
}

func BenchmarkEnter(b *testing.B) {
	s := New(Config{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			leave, err := s.Enter(context.Background(), Devices, "device:pi-07", 1)
			if err != nil {
				b.Fatal(err)
			}
			leave()
		}
	})
}
