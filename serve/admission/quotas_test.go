package admission_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/admission"
)

// TestQuotasHold checks that concurrent calls never get more than the quota.
func TestQuotasHold(t *testing.T) {
	q := admission.NewQuotas(admission.Quota{Solves: 3}, func(tenant string) admission.Quota {
		if tenant == "big" {
			return admission.Quota{Solves: 100}
		}
		return admission.Quota{}
	})
	refuses := func(err error) bool {
		var full *admission.QuotaError
		if !errors.As(err, &full) {
			return false
		}
		if full.Code != "quota_solves" || full.Limit != 3 || full.After <= 0 {
			t.Errorf("%+v", full)
		}
		return true
	}
	var held []func()
	for range 3 {
		release, err := q.Acquire("a")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	if _, err := q.Acquire("a"); !refuses(err) {
		t.Errorf("a fourth solve is not refused: %v", err)
	}
	for _, release := range held {
		release()
	}
	var now, most atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				release, err := q.Acquire("a")
				if refuses(err) {
					continue
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Microsecond)
				now.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	if most.Load() > 3 || q.Usage("a") != (admission.Quota{}) {
		t.Errorf("%d at once, left: %+v", most.Load(), q.Usage("a"))
	}
	if got := q.Of("big"); got.Solves != 100 || got.Rate != admission.DefaultQuota.Rate {
		t.Errorf("%+v", got)
	}
	var none *admission.Quotas
	for range 100 {
		if _, err := none.Acquire("a"); err != nil || none.Allow("a") != nil || none.Room("a") != nil {
			t.Fatal("none limits")
		}
	}
}

func TestQuotaCheck(t *testing.T) {
	for _, q := range []admission.Quota{{Solves: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}, {Rate: -1},
		{BodyBytes: -1}, {StoredBytes: -1}, {Sessions: -1}, {Streams: -1}, {Jobs: -1}} {
		if q.Check() == nil {
			t.Errorf("%+v is taken", q)
		}
	}
	if err := admission.DefaultQuota.Check(); err != nil {
		t.Error(err)
	}
}
