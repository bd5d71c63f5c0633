package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var soakLength = flag.Duration("hare.overload", 5*time.Minute, "how long TestOverload is with -hare.soak")

// TestOverload sends ten times as many calls as the server can handle, half of them
// with degrade. Refusals must be fast, accepted calls must keep their deadlines,
// and memory must not grow. A run of five minutes is started with
//
//	go test ./cmd/hare -run Overload -v -args -hare.soak
func TestOverload(t *testing.T) {
	length := 3 * time.Second
	if *soak {
		length = *soakLength
	}
	const limit = 500 * time.Millisecond
	const places = 2
	pause := limit / places / 10
	s := serve(t, time.Hour, "--data-dir", t.TempDir(), "--running", fmt.Sprint(places), "--retain-size", "16")
	defer s.stop(t)
	bodies := map[bool][]byte{}
	inst := generated(t, 100, "relaxed", 1)
	for _, degrade := range []bool{false, true} {
		bodies[degrade] = loadBody(t, inst, fmt.Sprintf(`{"time_limit_s":%.1f,"gap":0,"detail":"none","degrade":%v}`,
			limit.Seconds(), degrade))
	}
	var refused, late, answered, lateness spans
	var degraded, whole, kept atomic.Int64
	var rss []int
	var all sync.WaitGroup
	tick := time.NewTicker(pause)
	defer tick.Stop()
	began := time.Now()
	for n := 0; time.Since(began) < length; n++ {
		<-tick.C
		if n%200 == 0 {
			rss = append(rss, s.rss(t))
		}
		all.Go(func() {
			at := time.Now()
			code, h, text, err := s.call("POST", "/v1/solves", bodies[n%2 == 1])
			took := time.Since(at)
			var res struct{ Degraded bool }
			switch {
			case err == nil && code == 503 && h.Get("Retry-After") != "" && took < limit/2:
				refused.add(took)
			case err == nil && code == 503: // the call was refused after a wait
				late.add(took)
			case err == nil && code == 200 && json.Unmarshal(text, &res) == nil:
				answered.add(took)
				lateness.add(max(0, took-limit))
				if took < limit+limit/4 {
					kept.Add(1)
				}
				if res.Degraded {
					degraded.Add(1)
				} else {
					whole.Add(1)
				}
			default:
				t.Errorf("%d %.200s %v", code, text, err)
			}
		})
	}
	all.Wait()
	rss = append(rss, s.rss(t))
	t.Logf("%d refused: p50 %.1f ms, p99 %.1f ms; %d more after a wait, as it was too late for them", len(refused.all),
		refused.at(0.5), refused.at(0.99), len(late.all))
	t.Logf("%d answered in whole, %d degraded: p50 %.0f ms, p99 %.0f ms; over their limit p99 %.0f ms; %.1f %% within "+
		"a quarter of it", whole.Load(), degraded.Load(), answered.at(0.5), answered.at(0.99), lateness.at(0.99),
		100*float64(kept.Load())/float64(max(1, len(answered.all))))
	half := len(rss) / 2
	t.Logf("MiB resident: %d at first, at most %d in the first half and %d in the second", rss[0],
		slices.Max(rss[:half+1]), slices.Max(rss[half:]))
	if whole.Load() == 0 || len(refused.all) == 0 {
		t.Errorf("%d answered in whole, %d refused", whole.Load(), len(refused.all))
	}
	if *soak && slices.Max(rss[half:]) > slices.Max(rss[:half+1])*5/4 {
		t.Errorf("memory grows: %v MiB", rss)
	}
}
