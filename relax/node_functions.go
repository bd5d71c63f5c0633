package relax

import (
	"slices"

	"github.com/hare-sched/hare/model"
)

// nodeFunctions returns dual feasible functions on nodes of level GPUs, as what a task of each
// size counts for, that count some size for more than its GPUs: u_m (Fekete and Schepers
// 2001), and those that count tasks that leave less than s GPUs as the whole node and tasks
// of less than s as nothing.
func nodeFunctions(sizes []int64, level int64) [][]float64 {
	var out [][]float64
	add := func(f func(n int64) float64) {
		share := make([]float64, len(sizes))
		useful := false
		for i, n := range sizes {
			share[i] = f(min(n, level))
			useful = useful || n <= level && share[i] >= minSizeGain*float64(n)
		}
		if useful {
			out = append(out, share)
		}
	}
	for m := int64(1); m < min(level, 32); m++ {
		add(func(n int64) float64 { return dualFeasible{m: m}.share(n, level) })
	}
	for _, s := range sizes {
		if 2*s <= level {
			add(func(n int64) float64 {
				switch {
				case n > level-s:
					return float64(level)
				case n < s:
					return 0
				}
				return float64(n)
			})
		}
	}
	return out
}

// undominated leaves out functions that nowhere count more than another.
func undominated(shares [][]float64) [][]float64 {
	var out [][]float64
	for i, a := range shares {
		dominated := slices.ContainsFunc(out, func(b []float64) bool { return below(a, b) })
		for _, b := range shares[i+1:] {
			dominated = dominated || below(a, b) && !below(b, a)
		}
		if !dominated {
			out = append(out, a)
		}
	}
	return out
}

func below(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// patternCost returns what the dearest patterns of all domains cost over time, where a unit
// of each size costs its share.
func patternCost(domains []domain, sizes []int64, share []float64) []costStep {
	var value []float64
	best := func(capacity int64) float64 {
		for c := int64(len(value)); c <= capacity; c++ {
			v := 0.0
			for i, n := range sizes {
				if n <= c {
					v = max(v, share[i]+value[c-n])
				}
			}
			value = append(value, v)
		}
		return value[capacity]
	}
	changes := map[int64]float64{}
	for _, d := range domains {
		level := 0.0
		for _, s := range d.steps {
			v := best(s.Count) * float64(d.count)
			changes[s.FromUs] += v - level
			level = v
		}
	}
	return costSteps(changes)
}

func costSteps(changes map[int64]float64) []costStep {
	times := make([]int64, 0, len(changes))
	for t := range changes {
		times = append(times, t)
	}
	slices.Sort(times)
	level := 0.0
	out := make([]costStep, 0, len(times))
	for _, t := range times {
		level += changes[t]
		out = append(out, costStep{float64(t), level})
	}
	return out
}

// linearCost returns the cost of a pool of one domain, where a unit of capacity costs share.
func linearCost(steps []model.Step, share float64) []costStep {
	out := make([]costStep, 0, len(steps))
	for _, s := range steps {
		out = append(out, costStep{float64(s.FromUs), share * float64(s.Count)})
	}
	return out
}
