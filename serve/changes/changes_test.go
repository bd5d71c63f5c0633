package changes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hare-sched/hare/serve/changes"
)

// TestNothingIsMissed lets random things change while readers read now and then, begin again with the last number
// that they have, and read again what a change names: in the end each has what is there.
func TestNothingIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		there := map[string]int{}
		feed := changes.New(0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		type reader struct {
			has   map[string]int
			after int64
		}
		var readers []*reader
		for n := range 20 {
			r := &reader{has: map[string]int{}, after: -1}
			readers = append(readers, r)
			rng := rand.New(rand.NewPCG(3, uint64(n)))
			go func() {
				for ctx.Err() == nil {
					for c, err := range feed.Follow(ctx, r.after, ended, nil) {
						if err != nil {
							break
						}
						if r.after = c.Seq; c.Reset {
							r.has = maps.Clone(there)
						}
						for _, x := range c.Things {
							if x.Gone {
								delete(r.has, x.Name)
							} else {
								r.has[x.Name] = there[x.Name]
							}
						}
						if rng.IntN(5) == 0 {
							break
						}
						if rng.IntN(10) == 0 {
							time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
						}
					}
				}
			}()
		}
		for seq := int64(1); seq < 20_000; seq++ {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			synctest.Wait()
			thing := changes.Thing{Name: fmt.Sprint(rng.IntN(300)), Gone: rng.IntN(4) == 0}
			if thing.Gone {
				delete(there, thing.Name)
			} else {
				there[thing.Name] = int(seq)
			}
			last := seq - 1
			if rng.IntN(1000) == 0 {
				last-- // what the feed has is of no use any more
			}
			feed.Add(last, seq, []changes.Thing{thing})
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		for i, r := range readers {
			if !maps.Equal(r.has, there) {
				t.Errorf("reader %d has %d things of %d, or has them as they were", i, len(r.has), len(there))
			}
		}
	})
}

// TestChangesAreMerged checks that a reader gets a change at once, and what follows in a tenth of a second as one.
func TestChangesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := changes.New(7)
		ended, gone := make(chan struct{}), errors.New("gone")
		var got []string
		go func() {
			began := time.Now()
			for c, err := range feed.Follow(t.Context(), 7, ended, func() error { return gone }) {
				got = append(got, fmt.Sprint(time.Since(began), " ", c.Seq, " ", c.Things, " ", err))
			}
		}()
		for seq := int64(8); seq < 18; seq++ {
			synctest.Wait()
			feed.Add(seq-1, seq, []changes.Thing{{Name: fmt.Sprint("j", seq%2)}})
			time.Sleep(15 * time.Millisecond)
		}
		time.Sleep(time.Second)
		close(ended)
		synctest.Wait()
		want := "[0s 8 [{0 j0 false}] <nil> 100ms 14 [{0 j1 false} {0 j0 false}] <nil> " +
			"200ms 17 [{0 j0 false} {0 j1 false}] <nil> 1.15s 0 [] gone]"
		if fmt.Sprint(got) != want {
			t.Errorf("%v\nwant %s", got, want)
		}
	})
}

// TestOldChangesAreForgotten checks that a feed has no more memory than its things, and resets who asks for more.
func TestOldChangesAreForgotten(t *testing.T) {
	feed := changes.New(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for seq := int64(1); seq <= 50_000; seq++ {
		feed.Add(seq-1, seq, []changes.Thing{{Name: fmt.Sprint(seq)}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 5<<20 {
		t.Errorf("%d bytes", used)
	}
	for _, c := range []struct {
		after int64
		reset bool
		n     int
	}{{-1, true, 0}, {0, true, 0}, {39_999, true, 0}, {40_000, false, 10_000}, {49_999, false, 1}, {50_000, false, 0},
		{50_001, true, 0}} {
		if got, _ := feed.Since(c.after); got.Reset != c.reset || len(got.Things) != c.n || got.Seq != 50_000 {
			t.Errorf("after %d: %v, %d things, at %d", c.after, got.Reset, len(got.Things), got.Seq)
		}
	}
}
