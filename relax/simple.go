package relax

import (
	"container/heap"
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// boundByPath bounds each job alone on an empty cluster, or by the makespan the longest path. It takes O(n).
func boundByPath(pr *problem) *hare.Relaxation {
	rel := &hare.Relaxation{Method: hare.MethodCriticalPath, Progress: make([][]hare.Point, len(pr.jobs))}
	var sum hare.Amount
	for i := range pr.jobs {
		mj := &pr.specs[i]
		sum = sum.Add(hare.Product(mj.WeightMicro, pr.pathUs[i]-pr.releaseUs(i))).Add(tardinessOf(pr, i))
		rel.Progress[i] = []hare.Point{
			{TimeUs: float64(mj.ReleaseUs)},
			{TimeUs: float64(pr.pathUs[i]), Rounds: float64(mj.Rounds)},
		}
	}
	if pr.model.Instance.Objective == hare.ObjectiveMakespan {
		return pr.certified(rel, &hare.Certificate{}, makespanBound(longestPath(pr)))
	}
	x := new(big.Rat).SetInt(sum.Big())
	return pr.certified(rel, &hare.Certificate{}, x.Mul(x, big.NewRat(1000, 1)))
}

// tardinessOf returns v max(0, P − d) of a job.
func tardinessOf(pr *problem, i int) hare.Amount {
	mj := &pr.specs[i]
	return hare.Product(mj.LateWeightMicro, max(0, pr.pathUs[i]-mj.DeadlineUs))
}

// machineJob is a job on the one fast machine; its times count 1/M microseconds.
type machineJob struct {
	index   int
	release *big.Int
	work    *big.Int // W in GPU-microseconds; one is served in each 1/M µs
	left    *big.Int
	// twice is Σ (end² − start²) over the intervals in which the job is served: 2·W·B.
	twice  *big.Int
	weight int64
	sync   int64
	ratio  float64 // w/W, rounded
}

// ratioError is above the relative error of machineJob.ratio, which comes from three roundings.
const ratioError = 1e-14

// byRatio is a heap ordered by greatest w/W, then index.
type byRatio []*machineJob

func (br byRatio) Len() int { return len(br) }
func (br byRatio) Less(a, b int) bool {
	if p, q := br[a].ratio, br[b].ratio; math.Abs(p-q) > ratioError*max(p, q) {
		return p > q
	}
	x := new(big.Int).Mul(big.NewInt(br[a].weight), br[b].work)
	switch x.Cmp(new(big.Int).Mul(big.NewInt(br[b].weight), br[a].work)) {
	case 1:
		return true
	case -1:
		return false
	}
	return br[a].index < br[b].index
}
func (br byRatio) Swap(a, b int) { br[a], br[b] = br[b], br[a] }
func (br *byRatio) Push(x any)   { *br = append(*br, x.(*machineJob)) }
func (br *byRatio) Pop() any {
	old := *br
	x := old[len(old)-1]
	*br = old[:len(old)-1]
	return x
}

// maxScale limits the scale of work. Beyond it, work is rounded down.
const maxScale = 1 << 20

// commonCounts returns a multiple of the units of all rounds of jobs that may change their shape.
func commonCounts(pr *problem) int64 {
	common := int64(1)
	for i := range pr.specs {
		for s := range pr.specs[i].Shapes {
			u := pr.specs[i].Shapes[s].Counts
			if !pr.specs[i].Reshape || u > maxScale {
				continue
			}
			if next := common / gcd(common, u) * u; next <= maxScale {
				common = next
			}
		}
	}
	return common
}

// boundByMachine serves all jobs on one machine as fast as the whole cluster, preemptively and
// by greatest w/W among the released jobs. The mean busy times are those of Goemans'
// relaxation (SODA 1997). The result is exact; it takes O(n log n).
func boundByMachine(ctx context.Context, pr *problem) (*hare.Relaxation, error) {
	rel := &hare.Relaxation{Method: hare.MethodMachine, Progress: make([][]hare.Point, len(pr.jobs))}
	// Work and times are scaled so that work is whole where rounds of several shapes are mixed.
	scale := commonCounts(pr)
	speed := peakGPUs(pr) * scale
	jobs := make([]*machineJob, len(pr.jobs))
	for i := range jobs {
		mj := &pr.specs[i]
		x := &machineJob{index: i, weight: mj.WeightMicro, sync: hare.MaxExact, twice: new(big.Int)}
		for _, md := range pr.jobs[i].modes {
			t := int64(md.d)
			if mj.Sync == hare.Relaxed {
				t = int64(md.p)
			}
			tasks, gpus, counts := pr.shapeOf(i, &md)
			work := product(tasks*scale, gpus, t)
			if mj.Reshape {
				work.Mul(work, big.NewInt(mj.Rounds)).Div(work, big.NewInt(counts))
			} else {
				work.Mul(work, big.NewInt((mj.Rounds+counts-1)/counts))
			}
			if x.work == nil || work.Cmp(x.work) < 0 {
				x.work = work
			}
			x.sync = min(x.sync, int64(md.s))
		}
		if mj.Sync != hare.Relaxed {
			x.sync = 0
		}
		work, _ := new(big.Float).SetInt(x.work).Float64()
		x.ratio = float64(x.weight) / work
		x.left = new(big.Int).Set(x.work)
		x.release = product(1, speed, mj.ReleaseUs)
		jobs[i] = x
	}
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(a, b *machineJob) int { return a.release.Cmp(b.release) })
	var ready byRatio
	now := new(big.Int)
	for len(order) > 0 || len(ready) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(ready) == 0 && now.Cmp(order[0].release) < 0 {
			now.Set(order[0].release)
		}
		for len(order) > 0 && order[0].release.Cmp(now) <= 0 {
			heap.Push(&ready, order[0])
			order = order[1:]
		}
		x := ready[0]
		end := new(big.Int).Add(now, x.left)
		if len(order) > 0 && order[0].release.Cmp(end) < 0 {
			end.Set(order[0].release)
		}
		served := new(big.Int).Sub(end, now)
		x.left.Sub(x.left, served)
		x.twice.Add(x.twice, served.Mul(served, new(big.Int).Add(now, end)))
		rel.Progress[x.index] = x.point(rel.Progress[x.index], now, end, speed, pr.jobs[x.index].rounds)
		now = end
		if x.left.Sign() == 0 {
			heap.Pop(&ready)
		}
	}
	// total sums w (twice/(2 W M) + W/(2M) + σ − a), in 1e-12.
	total := new(big.Rat)
	for i, x := range jobs {
		mj := &pr.specs[i]
		c := new(big.Rat).SetFrac(x.twice, x.work)
		c.Add(c, new(big.Rat).SetInt(x.work))
		c.Quo(c, new(big.Rat).SetInt64(2*speed))
		c.Add(c, new(big.Rat).SetInt64(x.sync-pr.releaseUs(i)))
		c.Mul(c, new(big.Rat).SetInt64(mj.WeightMicro))
		if len(jobs) > exactTerms {
			n := new(big.Int).Lsh(c.Num(), 40)
			c.SetFrac(n.Div(n, c.Denom()), new(big.Int).Lsh(big.NewInt(1), 40))
		}
		total.Add(total, c)
		total.Add(total, new(big.Rat).SetInt(tardinessOf(pr, i).Big()))
	}
	return pr.certified(rel, &hare.Certificate{}, total.Mul(total, big.NewRat(1000, 1))), nil
}

func (mj *machineJob) point(to []hare.Point, now, end *big.Int, speed int64, rounds float64) []hare.Point {
	micros := func(t *big.Int) float64 {
		f, _ := new(big.Rat).SetFrac(t, big.NewInt(speed)).Float64()
		return f
	}
	left, _ := new(big.Rat).SetFrac(mj.left, mj.work).Float64()
	done := 0.0
	if len(to) > 0 {
		done = to[len(to)-1].Rounds
	}
	return append(to, hare.Point{TimeUs: micros(now), Rounds: done},
		hare.Point{TimeUs: micros(end), Rounds: rounds * (1 - left)})
}

// peakGPUs returns the greatest number of GPUs of all types that are in service at the same
// time, at least 1.
func peakGPUs(pr *problem) int64 {
	changes := map[int64]int64{}
	var times []int64
	for _, steps := range pr.caps {
		level := int64(0)
		for _, s := range steps {
			if _, ok := changes[s.FromUs]; !ok {
				times = append(times, s.FromUs)
			}
			changes[s.FromUs] += s.Count - level
			level = s.Count
		}
	}
	slices.Sort(times)
	level, top := int64(0), int64(1)
	for _, t := range times {
		level += changes[t]
		top = max(top, level)
	}
	return top
}
