package verify

import (
	"container/heap"
	"errors"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// machineBound simulates all jobs that are not fixed on one machine with the speed of the whole
// cluster, each with its a' as its release and with the work of the rounds that are left. The
// machine preempts jobs and always runs the released job with the greatest w/W
// (docs/inside/design.md, section 2). Times are in ticks of 1/M µs, so a job of work W takes W
// ticks, or in parts of these where a job may change its shape. The least tardiness of each job is
// added. machineBound takes O(n log n).
//
// Proof without those rules. Let y(t) ≤ M be the rate at which a job is served, scaled to W in all, and
// B' = (1/W) ∫ t y(t) dt. Then C − σ − B' = (1/W) ∫ (C − σ − t) y(t) dt is least when the work sits in the last W/M
// before C − σ, where it is W/(2M); so C ≥ B' + W/(2M) + σ. And Σ w B' = Σ ∫ t (w/W) y(t) dt is least for the
// preemptive schedule: where work of smaller w/W, or idle speed, comes before released work of greater w/W, exchanging
// equal amounts does not raise the sum (Goemans 1997). ∎
func machineBound(inst *hare.Instance, s *supply) (*proved, error) {
	if inst.Objective == hare.ObjectiveMakespan {
		return nil, errors.New("there is no method machine for the objective makespan")
	}
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	speed := wholePeak(s.capacities)
	type item struct {
		release, work, left, twice *big.Int
		job                        *hare.Job
		demand                     *demand
		sync                       int64
		rank                       int
	}
	var items []*item
	var which []int // the job of each item
	works := make([]*big.Rat, len(ds))
	ticks := big.NewInt(1) // so many make a µs of one GPU, for a whole number in each work
	for i := range ds {
		if ds[i].fixed {
			continue
		}
		job := &ds[i].job
		shapes, err := s.inShapes(job)
		if err != nil {
			return nil, err
		}
		x := &item{job: job, demand: &ds[i], twice: new(big.Int)}
		work, sync := leastWork(job, shapes)
		x.sync, works[i] = sync, work
		if d := work.Denom(); !d.IsInt64() || d.Int64() > 1 {
			ticks.Mul(ticks, new(big.Int).Quo(d, new(big.Int).GCD(nil, nil, ticks, d)))
		}
		items, which = append(items, x), append(which, i)
	}
	if ticks.BitLen() > 4096 {
		return nil, errors.New("the units that rounds of unlike shapes do are too many for an exact bound")
	}
	for at, x := range items {
		work := works[which[at]]
		x.work = new(big.Int).Mul(work.Num(), new(big.Int).Quo(ticks, work.Denom()))
		x.left = new(big.Int).Set(x.work)
		x.release = times(x.job.ReleaseUs, speed)
		x.release.Mul(x.release, ticks)
	}
	// Ranks by w/W reduce the choice among released jobs to a comparison of integers.
	byRank := slices.Clone(items)
	slices.SortStableFunc(byRank, func(a, b *item) int {
		l := new(big.Int).Mul(big.NewInt(a.job.WeightMicro), b.work)
		return new(big.Int).Mul(big.NewInt(b.job.WeightMicro), a.work).Cmp(l)
	})
	for i, x := range byRank {
		x.rank = i
	}
	waiting := slices.Clone(items)
	slices.SortStableFunc(waiting, func(a, b *item) int { return a.release.Cmp(b.release) })
	released := &readyHeap{}
	now := new(big.Int)
	for len(waiting) > 0 || released.Len() > 0 {
		if released.Len() == 0 && waiting[0].release.Cmp(now) > 0 {
			now = new(big.Int).Set(waiting[0].release)
		}
		for len(waiting) > 0 && waiting[0].release.Cmp(now) <= 0 {
			heap.Push(released, waiting[0].rank)
			waiting = waiting[1:]
		}
		x := byRank[(*released)[0]]
		end := new(big.Int).Add(now, x.left)
		if len(waiting) > 0 && waiting[0].release.Cmp(end) < 0 {
			end.Set(waiting[0].release)
		}
		x.left.Sub(x.left, new(big.Int).Sub(end, now))
		x.twice.Add(x.twice, new(big.Int).Sub(new(big.Int).Mul(end, end), new(big.Int).Mul(now, now)))
		if x.left.Sign() == 0 {
			heap.Pop(released)
		}
		now = end
	}
	// Each term is w (mean busy time + W/2M + σ − a), where the mean busy time is
	// twice/(2WM).
	terms := make([]*big.Rat, len(items))
	for i, x := range items {
		num := new(big.Int).Mul(x.work, x.work)
		num.Add(num, x.twice)
		per := new(big.Int).Mul(x.work, ticks)
		t := new(big.Rat).SetFrac(num, per.Mul(per, big.NewInt(2*speed)))
		t.Add(t, new(big.Rat).SetInt64(x.sync-x.demand.arrival))
		t.Mul(t, new(big.Rat).SetInt(times(x.job.WeightMicro, 1000)))
		late := x.demand.tardiness(x.demand.earliest)
		terms[i] = t.Add(t, new(big.Rat).SetInt(late.Mul(late, big.NewInt(1000))))
	}
	return addUp(terms, new(big.Int)), nil
}

// wholePeak returns the maximum of Σ_k M_k(t) over time.
func wholePeak(capacities map[string]*typeCapacity) int64 {
	var times []int64
	for _, s := range capacities {
		times = append(times, s.at...)
	}
	most := int64(1)
	for _, t := range times {
		sum := int64(0)
		for _, s := range capacities {
			at, found := slices.BinarySearch(s.at, t)
			if !found {
				at--
			}
			if at >= 0 {
				sum += s.level[at]
			}
		}
		most = max(most, sum)
	}
	return most
}

// readyHeap is a heap of the released jobs by rank.
type readyHeap []int

func (rh readyHeap) Len() int           { return len(rh) }
func (rh readyHeap) Less(i, j int) bool { return rh[i] < rh[j] }
func (rh readyHeap) Swap(i, j int)      { rh[i], rh[j] = rh[j], rh[i] }
func (rh *readyHeap) Push(x any)        { *rh = append(*rh, x.(int)) }
func (rh *readyHeap) Pop() any {
	last := len(*rh) - 1
	x := (*rh)[last]
	*rh = (*rh)[:last]
	return x
}
