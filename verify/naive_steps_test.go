package verify_test

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// naiveV computes the recursion V of docs/inside/bounds.md exactly as it is written there, in 1e-15
// weight-seconds. rows holds the prices by type, and peak returns the number of GPUs of a
// type.
func naiveV(job *hare.Job, grid []int64, delta int64, rows map[string][]int64, peak func(string) int64, path bool,
	tau int64, jobs int, as reading) int64 {
	release := job.ReleaseUs / delta * delta
	if as.stepUp && release < job.ReleaseUs {
		release += delta
	}
	P := release
	if path {
		P += job.Rounds * tau
	}
	type kind struct {
		p, s, m, f int64
		row        []int64
	}
	var kinds []kind
	var levels []int64
	K := job.Tasks
	deadline := (job.DeadlineUs + delta - 1) / delta * delta
	if as.deadlineDown {
		deadline = job.DeadlineUs / delta * delta
	}
	f := func(end int64) int64 {
		return 1000*job.WeightMicro*end + 1000*job.LateWeightMicro*max(0, end-deadline)
	}
	for _, p := range job.On {
		if m := peak(p.Type); m > 0 {
			most := (K + m - 1) / m
			kinds = append(kinds, kind{p.ComputeUs, p.SyncUs, m, p.SyncUs + p.ComputeUs*most, rows[p.Type]})
			for x := range most {
				levels = append(levels, (x+1)*p.ComputeUs+p.SyncUs)
			}
		}
	}
	holds := func(k kind, d int64) int64 {
		if d < k.s+k.p {
			return 0
		}
		return min(K, k.m*((d-k.s)/k.p))
	}
	short := func(d int64) bool {
		n := int64(0)
		for _, k := range kinds {
			n += holds(k, d)
		}
		return n < K
	}
	slices.Sort(levels)
	levels = slices.DeleteFunc(slices.Compact(levels), short)
	horizon := grid[len(grid)-1]
	// lengths are those of rounds, each with the time until which its slots may end.
	var lengths [][2]int64
	last := levels[len(levels)-1]
	every := ((last-tau)/delta+int64(len(kinds)))*job.Rounds*(horizon/delta)*int64(jobs) <= 1<<25
	for d := tau; every && !as.levelWindow && d < last; d += delta {
		if !short(d) {
			lengths = append(lengths, [2]int64{d, d})
		}
	}
	for l := range levels[1:] {
		switch {
		case as.levelWindow:
			lengths = append(lengths, [2]int64{levels[l], levels[l]})
		case !every:
			lengths = append(lengths, [2]int64{levels[l], levels[l+1] - delta})
		}
	}
	paid := func(k kind, to int64) int64 {
		sum := int64(0)
		for g, x := range k.row {
			sum += x * max(0, min(to, grid[g+1])-grid[g])
		}
		return sum
	}
	slot := func(k kind, from, to int64) int64 { // the cheapest slot that starts within
		least := int64(math.MaxInt64)
		for v := from; v <= min(to, horizon); v += delta {
			least = min(least, paid(k, v+k.p)-paid(k, v))
		}
		return least
	}
	type state struct{ r, x int64 }
	known := map[state]int64{}
	var V func(r, x int64) int64
	V = func(r, x int64) int64 {
		switch {
		case r == 0:
			return f(max(x, P))
		case x >= horizon:
			return f(max(P, x+r*tau))
		}
		if v, ok := known[state{r, x}]; ok {
			return v
		}
		best := V(r, x+delta)
		for _, of := range lengths {
			length, until := of[0], of[1]
			partly, whole := false, false
			for _, k := range kinds {
				n := holds(k, length)
				partly, whole = partly || 0 < n && n < K, whole || n == K
			}
			if !partly || as.noSharing || as.wholeAlone && whole {
				continue
			}
			var parts [][2]int64 // the price of a slot and the number of tasks, by type
			for _, k := range kinds {
				if n := holds(k, length); n > 0 {
					parts = append(parts, [2]int64{slot(k, x, x+until-k.s-k.p), n})
				}
			}
			slices.SortFunc(parts, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
			cost, left := int64(0), K
			for _, p := range parts {
				n := min(left, p[1])
				cost += n * p[0]
				left -= n
			}
			best = min(best, cost+V(r-1, x+length))
		}
		for _, k := range kinds {
			if !as.noLast {
				best = min(best, K*slot(k, x, x+k.f-k.s-k.p)+V(r-1, x+k.f))
			}
		}
		known[state{r, x}] = best
		return best
	}
	return V(job.Rounds, release)
}
