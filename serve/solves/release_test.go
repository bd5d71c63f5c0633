package solves_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
)

// refusing is a store. Once it is armed, its next write waits and is then refused, unless
// works is set.
type refusing struct {
	*store.MemorySolves
	armed         chan struct{} // holds one where the next write is refused
	entered, open chan struct{}
	works         bool
}

func (r *refusing) WriteSolves(ctx context.Context, b *store.SolveBatch) error {
	select {
	case <-r.armed:
		close(r.entered)
		<-r.open
		if r.works {
			return r.MemorySolves.WriteSolves(ctx, b)
		}
		return fmt.Errorf("%w: full", store.ErrStorage)
	default:
		return r.MemorySolves.WriteSolves(ctx, b)
	}
}

// The disk refuses an answer from the cache after the solve that it came from was
// deleted. The result, which both share, is removed from the store.
func TestRefusedCacheHitReleasesItsDocument(t *testing.T) {
	ctx := t.Context()
	kept := &refusing{MemorySolves: store.NewMemorySolves(), armed: make(chan struct{}, 1),
		entered: make(chan struct{}), open: make(chan struct{})}
	s := openSolves(t, solves.Config{Store: kept, Retry: time.Millisecond})
	in := solves.Input{Instance: haretest.Gangs(5, 3), Options: hare.Options{WorkLimit: 20}}
	first, _, err := s.Submit(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if first, err = s.Wait(ctx, "", first.ID); err != nil || first.ResultBytes == 0 {
		t.Fatalf("%+v %v", first, err)
	}
	kept.armed <- struct{}{}
	submitted, deleted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := s.Submit(ctx, in)
		submitted <- err
	}()
	<-kept.entered // the answer from the cache is being written
	go func() { deleted <- s.Delete(ctx, "", first.ID) }()
	for all := []solves.Info{first}; len(all) > 0; {
		if all, _, err = s.List(ctx, "", solves.Filter{}); err != nil {
			t.Fatal(err)
		}
	}
	close(kept.open)
	if err := <-submitted; !errors.Is(err, store.ErrStorage) {
		t.Fatalf("submitted: %v", err)
	}
	if err := <-deleted; err != nil {
		t.Fatalf("deleted: %v", err)
	}
	last := int64(-1)
	for began := time.Now(); last != 0 && time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if last, err = kept.LastBlob(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if last != 0 {
		t.Errorf("document %d is still there", last)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
