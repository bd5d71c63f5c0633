package verify_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
)

// naiveWork is the work that runs at time 0.
type naiveWork struct {
	first, until []int64 // by job: the first round that is left, and E
	forGood      bool
}

func naiveRunning(inst *hare.Instance, r nodeReading) naiveWork {
	w := naiveWork{make([]int64, len(inst.Jobs)), make([]int64, len(inst.Jobs)), r.busyForGood}
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		if job.Progress == nil {
			continue
		}
		shape := job.Shape(job.Progress.Shape)
		w.first[i] = job.Progress.RoundsDone
		var at []int
		for _, gpu := range job.Progress.GPUs {
			at = append(at, slices.IndexFunc(inst.Cluster.Nodes,
				func(n hare.Node) bool { return strings.HasPrefix(gpu, n.Name+"/") }))
		}
		for _, gpu := range job.Progress.GPUs {
			kind := typeOf(inst, gpu)
			for _, p := range shape.On {
				if p.Type == kind {
					w.until[i] = max(w.until[i], p.ComputeUs+brute.SyncUs(inst, p, brute.Reading{}.Spread(inst, at)))
				}
			}
		}
		if w.until[i] == 0 {
			continue
		}
		rounds := int64(1)
		if job.Sync == hare.Rigid {
			rounds = (job.Rounds - job.Progress.RoundsDone + shape.Counts - 1) / shape.Counts
		}
		w.until[i] *= rounds
		if !r.noElapsed {
			w.until[i] -= job.Progress.ElapsedUs
		}
		if !r.runningAgain {
			w.first[i] = min(job.Rounds, w.first[i]+rounds*shape.Counts)
		}
	}
	return w
}

func (w *naiveWork) holds(inst *hare.Instance, gpu string, t int64) bool {
	for i := range inst.Jobs {
		if p := inst.Jobs[i].Progress; p != nil && slices.Contains(p.GPUs, gpu) && (w.forGood || t < w.until[i]) {
			return true
		}
	}
	return false
}

// tasks returns what running tasks on node n hold at t, where of says what one task holds.
func (w *naiveWork) tasks(inst *hare.Instance, n int, t int64, of func(*hare.Job) int64) (held int64) {
	for i := range inst.Jobs {
		job := &inst.Jobs[i]
		if job.Progress == nil || t >= w.until[i] {
			continue
		}
		gpus := int64(0)
		for _, gpu := range job.Progress.GPUs {
			if strings.HasPrefix(gpu, inst.Cluster.Nodes[n].Name+"/") {
				gpus++
			}
		}
		shape := job.Shape(job.Progress.Shape)
		held += gpus / shape.TaskGPUs() * of(job)
	}
	return held
}

// typeOf returns the type of a GPU.
func typeOf(inst *hare.Instance, gpu string) string {
	for i := range inst.Cluster.Nodes {
		number := 0
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			for range g.Count {
				if gpu == fmt.Sprintf("%s/%d", inst.Cluster.Nodes[i].Name, number) {
					return g.Type
				}
				number++
			}
		}
	}
	return ""
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// naiveCost returns what a pool costs for a second in a cell; amount gives what it has of each
// node.
func naiveCost(inst *hare.Instance, p *hare.Pool, nodes, cell int, r nodeReading,
	amount func(n int) int64) float64 {
	single := int64(0)
	if p.Nanos != nil {
		single = p.Nanos[cell]
	}
	sizes := map[int64]int64{}
	for _, s := range p.Sizes {
		sizes[s.GPUs] = s.Nanos[cell]
	}
	pattern := func(m int64) float64 {
		if !r.dearestFirst {
			return float64(naivePattern(m, single, sizes, reading{noSingles: r.noSingles})) * 1e-9
		}
		// The good of the greatest price per GPU comes first, the smaller one of equal goods.
		goods := [][2]int64{{1, single}}
		for s, x := range sizes {
			goods = append(goods, [2]int64{s, x})
		}
		slices.SortFunc(goods, func(a, b [2]int64) int {
			return cmp.Or(cmp.Compare(b[1]*a[0], a[1]*b[0]), cmp.Compare(a[0], b[0]), cmp.Compare(b[1], a[1]))
		})
		paid := int64(0)
		for _, good := range goods {
			paid += m / good[0] * good[1]
			m %= good[0]
		}
		return float64(paid) * 1e-9
	}
	all, domains, sum := int64(0), int64(0), 0.0
	if slices.Contains(inst.Cluster.Topology, p.Per) {
		free := map[string]int64{}
		for n := range nodes {
			free[brute.Reading{}.Domain(inst, p.Per, n)] += amount(n)
		}
		for _, m := range free {
			sum += pattern(m)
		}
		return sum
	}
	for n := range nodes {
		m := amount(n)
		all += m
		if m > 0 {
			domains++
		}
		if p.Per == hare.PerNode && !r.meanNode {
			sum += pattern(m)
		}
	}
	switch {
	case p.Resource == hare.PoolCPUs:
		return float64(all) / 1000 * float64(single) * 1e-9
	case p.Resource == hare.PoolMemory:
		return float64(all) * float64(single) * 1e-9
	case p.Per == hare.PerAll:
		return pattern(all)
	case r.meanNode && domains > 0:
		return float64(domains) * pattern(all/domains)
	}
	return sum
}

// naiveWindows returns the first start of a round of what is left of a job, and the least end of all
// rounds, one after another, each where it ends first. A block finds for each node as much room as
// there is at every half second of the block. It returns −1 if there never is enough.
func naiveWindows(job *hare.Job, modes []hare.Profile, tau int64, r nodeReading,
	room func(kind string, n int, t int64) int64, nodes int, last int64) (first, end int64) {
	const half = 500_000
	start := func(from, hold, need int64, kinds ...string) int64 {
		for t := (from + half - 1) / half * half; ; t += half {
			sum, fullest, all := int64(0), int64(0), true
			for n := range nodes {
				here := int64(0)
				for _, kind := range kinds {
					least := room(kind, n, min(t, last))
					for u := t; u < t+hold && u <= last; u += half {
						least = min(least, room(kind, n, u))
					}
					here += least
				}
				sum, fullest, all = sum+here, max(fullest, here), all && here > 0
			}
			if r.windowOfNode {
				sum = fullest
			}
			if sum >= need && (!r.windowOfAll || all) {
				return max(from, t)
			}
			if t > last {
				return -1
			}
		}
	}
	rounds := job.Rounds
	var kinds []string
	for _, p := range modes {
		if !slices.Contains(kinds, p.Type) {
			kinds = append(kinds, p.Type)
		}
	}
	first = -1
	for t := job.ReleaseUs; rounds > 0; rounds-- {
		begin, best := int64(-1), int64(-1)
		offer := func(s, time int64) {
			if s >= 0 && (begin < 0 || s < begin) {
				begin = s
			}
			if s >= 0 && (best < 0 || s+time < best) {
				best = s + time
			}
		}
		for _, p := range modes {
			d := p.ComputeUs + p.SyncUs
			switch {
			case job.Sync == hare.Relaxed && r.windowOfSync:
				offer(start(t, d, 1, p.Type), tau)
			case job.Sync == hare.Relaxed:
				offer(start(t, p.ComputeUs, 1, p.Type), tau)
			case job.Mix:
				offer(start(t, tau, job.Tasks, kinds...), tau)
			case job.Sync == hare.Rigid || r.windowOfJob:
				offer(start(t, rounds*d, job.Tasks, p.Type), rounds*d)
			default:
				offer(start(t, d, job.Tasks, p.Type), d)
			}
		}
		if best < 0 {
			return -1, -1
		}
		if first < 0 {
			first = begin
		}
		if t = best; job.Sync == hare.Rigid || r.windowOfJob && job.Sync == hare.Gang && !job.Mix {
			return first, best
		}
		end = best
	}
	return first, end
}
