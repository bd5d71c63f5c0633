package relax

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// JobPricesConfig tunes JobPrices.
type JobPricesConfig struct {
	// Target is the value of a schedule, in weight-seconds; the ascent ends where the bound reaches it.
	Target float64
	// Cells is the finest grid; zero means 96.
	Cells int
	// Steps limits the steps of the ascent, each of which prices all jobs once; zero means no limit.
	Steps int
	// Workers is the number of goroutines; zero means GOMAXPROCS. The result does not depend on it.
	Workers int
	// Quit ends the exact evaluation of the bound, as in Config.
	Quit <-chan struct{}
	// Report gets the bound in floating point when it rises, in weight-seconds; it may be nil.
	Report func(bound float64)
	// Improved gets the relaxation on each grid but the last one, at the cost of an exact evaluation; it may be nil.
	Improved func(*hare.Relaxation)
}

// These constants were chosen on instances of 40 and 200 gang or rigid jobs.
const (
	jobDeflect  = 0.7  // the share of the newest supergradient in the direction
	jobPatience = 15   // steps without a better value before the target moves nearer
	jobNearer   = 0.7  // the factor by which the target then moves nearer
	jobFloor    = 0.03 // the least price in the preconditioner, as a share of the greatest one
	jobCells    = 96
	jobSteps    = 200
	meanShare   = 0.1     // the share of the newest prices in their average
	meanSteps   = 10      // of so many values one is that of the average
	cellBlock   = 8       // the cells that a goroutine takes at once
	jobBlock    = 4       // the jobs that a goroutine takes at once
	rowBlock    = 64      // the rows of prices that a goroutine takes at once
	maxJobRows  = 3_000   // the most pairs of a job and a type with a price of their own
	maxPairGPUs = 1 << 18 // the most GPUs of the types of all pairs together
	// The first target lies above the first value by jobAmbition over the number of jobs, but by no more than
	// mostAmbition and no less than leastAmbition, as shares. Until a target is missed, it moves farther by the factor
	// jobFarther with each better average, up to farthestTarget. On a finer grid it is leastRefined away or more.
	jobFarther     = 1.2
	farthestTarget = 0.05
	leastRefined   = 1e-3
	jobAmbition    = 0.8
	mostAmbition   = 0.02
	leastAmbition  = 0.004
)

// PricesJobs reports whether JobPrices takes a model: its gang and rigid jobs hold GPUs of one type at a time, neither
// nodes nor shapes matter, and there are not too many jobs and GPUs.
func PricesJobs(m *model.Model) bool {
	if len(m.Jobs) == 0 || m.Placed {
		return false
	}
	if m.Instance.Objective != hare.ObjectiveWeightedJCT || m.Instance.FirstRule(0) != "" {
		return false
	}
	most := make([]int64, len(m.Types)) // GPUs
	for k := range most {
		most[k] = model.MostRoom(m.Capacity(k))
	}
	rows, steps := 0, int64(0)
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Mix || j.RunsUntilUs > 0 {
			return false
		}
		rows += len(j.Modes)
		for _, md := range j.Modes {
			steps += most[md.Type]
		}
	}
	return rows <= maxJobRows && steps <= maxPairGPUs
}

// JobPrices raises the bound of a relaxation with prices, by a price for each job on each type, until ctx ends.
// The certificate is a tree of one leaf (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "One leaf"). Where, on
// each type, each number of GPUs of a job divides the next greater one, a step takes O(pairs · cells · log jobs) for
// rigid jobs on pairs of a job and a type, and else O(pairs · cells · GPUs). Gangs add their oracles. JobPrices
// returns nil where the model is not one of PricesJobs, or where ctx ends before the first step.
func JobPrices(ctx context.Context, m *model.Model, from *hare.Relaxation, cfg JobPricesConfig) *hare.Relaxation {
	if !PricesJobs(m) || from == nil || from.Certificate == nil || len(from.Certificate.GridUs) < 2 {
		return nil
	}
	pr, ok := newProblem(m, 0)
	if !ok {
		return nil
	}
	pr.addJobRows()
	a := climbJobs(ctx, pr, from, cfg)
	if a == nil {
		return nil
	}
	return a.certified(ctx, from, cfg.Quit)
}

// climbJobs climbs on finer and finer grids, and returns the last ascent with a step; nil without one.
func climbJobs(ctx context.Context, pr *problem, from *hare.Relaxation, cfg JobPricesConfig) (a *jobAscent) {
	finest := cmp.Or(cfg.Cells, defaultCells)
	steps, target := cmp.Or(cfg.Steps, math.MaxInt), cfg.Target/unit
	points := refinedTo(from.Certificate.GridUs, finest)
	for cells := min(jobCells, finest); ; cells *= 2 {
		next := newJobAscent(pr, points, cells, cfg.Workers)
		next.report = cfg.Report
		last := 2*cells > finest || cells >= len(points)-1
		most := steps
		if !last {
			most = min(steps, jobSteps)
		}
		var cur *prices
		if a == nil {
			cur = next.transfer(from.Certificate)
		} else {
			cur = next.refined(a)
		}
		steps -= next.climb(ctx, cur, target, most, a == nil)
		if next.best == nil {
			return a
		}
		if a = next; last || steps == 0 || ctx.Err() != nil || a.bound >= target {
			return a
		}
		if cfg.Improved != nil {
			if rel := a.certified(ctx, from, cfg.Quit); rel != nil {
				cfg.Improved(rel)
			}
		}
	}
}

// refinedTo halves the cells of a grid until there are so many or more, as far as they are longer than 1 µs.
func refinedTo(grid []int64, cells int) []int64 {
	for last := 0; len(grid)-1 < cells && len(grid) > last; {
		last = len(grid)
		halves := grid[:1:1]
		for g, to := range grid[1:] {
			if middle := grid[g] + (to-grid[g])/2; middle > grid[g] {
				halves = append(halves, middle)
			}
			halves = append(halves, to)
		}
		grid = halves
	}
	return grid
}

// addJobRows gives each job rows of its own in place of those of sizes. Relaxed jobs get tight and loose rounds.
func (pr *problem) addJobRows() {
	pr.dropSizes()
	for i := range pr.jobs {
		if pr.jobs[i].sync == hare.Relaxed {
			pr.addRoundModes(i)
			continue
		}
		for m := range pr.jobs[i].modes {
			md := &pr.jobs[i].modes[m]
			md.top, md.row = len(pr.rows), len(pr.rows)
			pr.rows = append(pr.rows, row{md.kind, pr.unitGPUs(i, md), i + 1})
		}
	}
	pr.shareTrailing()
}

// certified returns the relaxation with the certificate of the best prices and the bound that they prove.
func (a *jobAscent) certified(ctx context.Context, from *hare.Relaxation, quit <-chan struct{}) *hare.Relaxation {
	pr := a.pr
	grid := make([]int64, len(a.grid))
	for g, t := range a.grid {
		grid[g] = int64(t)
	}
	set := hare.PriceSet{GridUs: grid}
	most := float64(hare.MaxExact) // so that the prices of a set of jobs add up in 63 bits
	for k := range pr.caps {
		most = min(most, math.Floor((1<<62)/float64(int64(len(pr.rows))+model.MostRoom(pr.caps[k]))))
	}
	nanos := make([][]int64, len(pr.rows))
	for r, to := range pr.rows {
		nanos[r] = make([]int64, len(grid)-1)
		if to.job == 0 && a.singles == 0 {
			continue
		}
		for g, x := range a.best.at[r] {
			nanos[r][g] = int64(min(math.Round(x*float64(to.gpus)), most))
		}
		if to.job == 0 {
			set.Prices = append(set.Prices, hare.TypePrices{Type: pr.model.Types[to.kind], Nanos: nanos[r]})
			continue
		}
		// A relaxed job without a price of its own has the usual rounds, so that zeros count, too.
		if slices.Max(nanos[r]) > 0 || pr.jobs[to.job-1].sync == hare.Relaxed {
			job := pr.model.Instance.Jobs[pr.index[to.job-1]].ID
			set.Jobs = append(set.Jobs, hare.JobPrices{Job: job, Type: pr.model.Types[to.kind], Nanos: nanos[r]})
		}
	}
	slices.SortFunc(set.Jobs, func(x, y hare.JobPrices) int {
		return cmp.Or(strings.Compare(x.Job, y.Job), strings.Compare(x.Type, y.Type))
	})
	ev, cancel := evaluation(ctx, &Config{Quit: quit})
	defer cancel()
	bound, err := a.ev.exactBound(ev, grid, nanos, 0)
	if err != nil {
		return nil
	}
	c := from.Certificate
	rel := &hare.Relaxation{Method: hare.MethodBranch, Progress: from.Progress, GridUs: from.GridUs, Prices: from.Prices}
	for i, phi := range a.ev.phi {
		rel.Phi = append(rel.Phi, (phi-pr.jobs[i].w*pr.jobs[i].a)*unit)
	}
	for _, c := range a.ev.capacity {
		rel.Capacity = append(rel.Capacity, c*unit)
	}
	return pr.certified(rel, &hare.Certificate{GridUs: c.GridUs, Prices: c.Prices, Sizes: c.Sizes, Path: c.Path,
		PriceSets: []hare.PriceSet{set}, Tree: []hare.BranchNode{{Prices: 1}}}, bound)
}

// addRoundModes gives relaxed job i prices of its own: tight and loose rounds in place of the usual ones
// (docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "Relaxed jobs in one leaf"). A type on which a loose round
// takes no longer than a tight one keeps the usual rounds, which prove more there.
func (pr *problem) addRoundModes(i int) {
	j, mj := &pr.jobs[i], &pr.specs[i]
	tau := float64((pr.pathUs[i] - mj.ReleaseUs) / mj.Rounds)
	var modes []mode
	for x := range j.modes {
		md := j.modes[x]
		most := float64(model.MostRoom(pr.caps[md.kind]))
		least := md.p*max(2, math.Ceil(j.tasks/most)) + md.s
		for y := range j.modes {
			if y != x {
				least = min(least, max(md.d, j.modes[y].d))
			}
		}
		d := max(md.d, tau, least)
		if j.tasks > 1 && d == md.d || d > hare.MaxExact {
			modes = append(modes, md)
			continue
		}
		tight := md
		tight.top, tight.row = len(pr.rows), len(pr.rows)
		pr.rows = append(pr.rows, row{md.kind, mj.Tasks, i + 1})
		if j.tasks <= most {
			modes = append(modes, tight)
		}
		if j.tasks > 1 {
			loose := md
			loose.d, loose.each, loose.held = d, d, j.tasks*md.p/d
			loose.s, loose.ahead = max(md.d, d-md.p), max(md.p, d-md.d)
			modes = append(modes, loose)
		}
	}
	j.modes = modes
	sortModes(j.modes)
	j.setPerRate()
}

// wideRounds is the share of the GPUs of its fastest type that a round of a job takes, on average over GPU-time, from
// which on prices of jobs pay where some jobs are relaxed: on 48 instances of 20 to 80 jobs on two types of 4 to 32
// GPUs, bounds rose by up to 6 % where it was greater, and hardly where it was less.
const wideRounds = 0.25

// WideRounds reports whether the rounds of jobs are so wide that prices of jobs pay where some jobs are relaxed.
func WideRounds(m *model.Model) bool {
	all, wide := 0.0, 0.0
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if len(j.Modes) == 0 {
			continue // the job has no GPU, as the solve will say
		}
		fast := &j.Modes[0]
		for x := range j.Modes {
			if j.Modes[x].DurationUs() < fast.DurationUs() {
				fast = &j.Modes[x]
			}
		}
		work := float64(j.Rounds) * float64(j.Tasks) * float64(fast.DurationUs())
		most := max(1, model.MostRoom(m.Capacity(int(fast.Type))))
		all += work
		wide += work * min(1, float64(j.Tasks)/float64(most))
	}
	return wide >= wideRounds*all
}
