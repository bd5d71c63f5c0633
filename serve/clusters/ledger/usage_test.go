package ledger

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// TestUsageIsThatOfTheJournal compares the sums with those of a naive count: after each record all jobs and devices
// are counted, and the counts hold until the next record.
func TestUsageIsThatOfTheJournal(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 23))
		naive := map[int64]*Usage{} // by minute
		var counts Usage
		var atUs int64
		hold := func(toUs int64) {
			for atUs != 0 && atUs < toUs {
				n := atUs / minuteUs
				step := min(toUs, (n+1)*minuteUs) - atUs
				x := naive[n]
				if x == nil {
					x = &Usage{UsedUs: map[string]int64{}, InServiceUs: map[string]int64{}}
					naive[n] = x
				}
				x.TimeUs += step
				x.WaitingUs += counts.WaitingUs * step
				x.RunningUs += counts.RunningUs * step
				x.WaitingGPUsUs += counts.WaitingGPUsUs * step
				for gpuType, k := range counts.UsedUs {
					x.UsedUs[gpuType] += k * step
				}
				for gpuType, k := range counts.InServiceUs {
					x.InServiceUs[gpuType] += k * step
				}
				atUs += step
			}
			atUs = toUs
		}
		l, again := New(), New() // the latter is read from snapshots
		var all []Usage
		ended, started, waitUs := int64(0), int64(0), int64(0)
		nowUs := int64(1e15)
		for range 500 {
			if nowUs += rng.Int64N(60e6); rng.IntN(100) == 0 {
				nowUs += 2.5 * 24 * 3600e6 // days on which nothing happens
			}
			r := randomRecord(rng, l)
			if r == nil {
				continue
			}
			r.AtUs = nowUs
			hold(nowUs)
			for _, x := range []*Ledger{l, again} {
				if err := x.Apply(r); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(40) == 0 {
				n := len(again.UsageOver(7))
				all = append(all, again.UsageOver(7)...)
				again.TakeUsage(n)
				again = restored(t, again)
			}
			counts = Usage{UsedUs: map[string]int64{}, InServiceUs: map[string]int64{}}
			ended, started, waitUs = 0, 0, 0
			for k := range l.byTime {
				j := l.find(jobID(k + 1))
				switch {
				case j.state == clusterdoc.JobWaiting:
					counts.WaitingUs++
					counts.WaitingGPUsUs += j.gpus()
				case j.state.Final():
					ended++
				default:
					counts.RunningUs++
				}
				if len(j.attempts) > 0 {
					started++
					waitUs += j.attempts[0].orderedUs - j.submittedUs
				}
			}
			for _, a := range l.Agents() {
				for _, d := range a.Devices {
					if d.Job != "" {
						counts.UsedUs[d.Type]++
					}
					if a.State != "lost" && d.Reason == "" {
						counts.InServiceUs[d.Type]++
					}
				}
			}
		}
		nowUs += 100 * minuteUs
		hold(nowUs)
		for range 2 { // looking changes nothing
			_ = again.Usage(nowUs)
		}
		all = append(all, again.Usage(nowUs)...)
		minutes, next := int64(0), all[0].Minute
		for _, x := range all {
			if x.Minute != next {
				t.Fatalf("seed %d: minute %d follows %d", seed, x.Minute, next)
			}
			next = x.Minute + x.Minutes
			started, ended, waitUs = started-x.Started, ended-x.Ended, waitUs-x.WaitUs
			for n := range x.Minutes {
				want := naive[x.Minute+n]
				if want == nil {
					if x.TimeUs != 0 {
						t.Fatalf("seed %d: minute %d is too much", seed, x.Minute+n)
					}
					continue
				}
				minutes++
				for _, v := range [][2]int64{{x.TimeUs, want.TimeUs}, {x.WaitingUs, want.WaitingUs},
					{x.RunningUs, want.RunningUs}, {x.WaitingGPUsUs, want.WaitingGPUsUs}} {
					if v[0] != v[1]*x.Minutes {
						t.Fatalf("seed %d, minute %d: %+v and not %+v", seed, x.Minute+n, x, *want)
					}
				}
				for _, v := range [][2]map[string]int64{{x.UsedUs, want.UsedUs}, {x.InServiceUs, want.InServiceUs}} {
					for _, gpuType := range slices.Concat(slices.Collect(maps.Keys(v[0])), slices.Collect(maps.Keys(v[1]))) {
						if v[0][gpuType] != v[1][gpuType]*x.Minutes {
							t.Fatalf("seed %d, minute %d, %s: %+v and not %+v", seed, x.Minute+n, gpuType, x, *want)
						}
					}
				}
			}
		}
		if started != 0 || ended != 0 || waitUs != 0 || int(minutes) != len(naive) {
			t.Errorf("seed %d: %d starts, %d ends and %d µs of waiting are missing; %d minutes of %d", seed, started, ended,
				waitUs, minutes, len(naive))
		}
		if math.Abs(float64(len(all)-int(minutes))) < 1000 {
			t.Errorf("%d rows for %d minutes", len(all), minutes)
		}
	}
}
