package search

import (
	"context"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Gang and rigid jobs are annealed well and relaxed jobs are not, since a round of a relaxed job may be in many
// pieces. So each relaxed job is annealed as a gang that holds its GPUs for as long, a surrogate, and then either
// takes the places of the surrogate, round by round, or is searched by keys in what the gang and rigid jobs leave.
// Where jobs arrive over time the places serve: with keys beside them, values of unseen mixtures were 0.4 % higher for
// equal work. Where all arrive together each is better on some instances, and both are tried.

// mixedJobsSearch is for jobs that annealing places and others, guided by a relaxation. It moves rounds without
// regard to jobs that wait for others, and takes the value of a plan apart by jobs, which only the sum of completion
// times allows.
var mixedJobsSearch = search{
	name: "mixed",
	supports: func(rq *request) bool {
		if !rq.inClasses() || rq.cfg.shaped != nil || rq.rel == nil || room.HasAfter(rq.m) ||
			rq.m.Instance.Objective != hare.ObjectiveWeightedJCT {
			return false
		}
		filler, annealed := rq.jobs()
		return len(filler) > 0 && len(annealed) > 0
	},
	// Of few jobs, the search by keys tries nearly all orders.
	continual: func(rq *request) bool { return len(rq.m.Jobs) > fewJobs && rq.start != nil },
	run: func(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
		cfg := rq.cfg
		cfg.JobSeconds = 0 // the annealing has only a part of the time
		filler, annealed := rq.jobs()
		return searchMixed(ctx, rq.m, rq.rel, rq.start, cfg, filler, annealed)
	},
}

// mixedSearch searches for instances that have gang or rigid jobs as well as others.
// Annealing places the gang and rigid jobs beside surrogates of the others, which then take the places of their
// surrogates; or a search for relaxed jobs places them in the capacity that is left.
type mixedSearch struct {
	ctx   context.Context
	m     *model.Model
	rel   *hare.Relaxation
	cfg   *ImproveConfig
	left  int64 // the moves that are left
	stats Stats
	big   []bool
	best  *place.Plan // nil until there is one
	value hare.Amount
	// filler lists the jobs that fill the remaining capacity: relaxed jobs, and gangs that
	// need several types at once. annealed lists the jobs that the annealing places.
	filler, annealed []int
	fillerModel      *model.Model // the model with the filler jobs only
	progress         [][]hare.Point
	// placesServe says that the others take the places of their surrogates, without a search for relaxed jobs.
	placesServe bool
}

// annealRate is the number of jobs that the annealing places in the time in which the
// search for relaxed jobs places one.
const annealRate = 200

// candidateShares are the shares of the budget by which each candidate is annealed and finished: a first one, so that
// there is a plan soon, and a good one. The remainder is used to fill the better one better.
var candidateShares = [...]float64{0.04, 0.5}

// lastShare is the share of the budget that ends the last candidate where the places of surrogates serve.
const lastShare = 0.95

// manyJobs is the number of jobs above which the first candidate takes too long and is left out. The places of
// surrogates serve up to mostForPlaces jobs.
const (
	manyJobs      = 500
	mostForPlaces = 1000
)

// blendWeights are the weights of the surrogate plan in the orders that are tried for
// it.
var blendWeights = [...]float64{0.5, 1}

// fewJobs is the number of jobs up to which the last part of the budget searches over
// the keys of all jobs, gang and rigid jobs too.
const fewJobs = 12

// annealShare is the share of a candidate's budget for the annealing, and placesShare the one where the places of
// surrogates serve: the remainder is for justification.
const (
	annealShare = 0.6
	placesShare = 0.97
)

// searchMixed searches for a plan better than start, which may be nil. The end of ctx is
// not an error.
func searchMixed(ctx context.Context, m *model.Model, rel *hare.Relaxation, start *place.Plan, cfg ImproveConfig,
	filler, annealed []int) (*place.Plan, Stats, error) {
	ms := &mixedSearch{ctx: ctx, m: m, rel: rel, cfg: &cfg, left: cfg.Moves, big: place.BigJobs(m,
		place.MaxTasksByRound),
		best: start, filler: filler, annealed: annealed, placesServe: len(m.Jobs) > fewJobs && placesMayServe(m)}
	if start != nil {
		ms.value = start.Value(m)
	}
	fillers := *m
	fillers.Jobs = nil
	for _, i := range filler {
		fillers.Jobs = append(fillers.Jobs, m.Jobs[i])
	}
	ms.fillerModel = &fillers
	peek := func() {
		if ms.cfg.Checkpoint != nil && ms.best != start {
			ms.cfg.Checkpoint(func() *place.Plan { return ms.best.FromUnits(1) })
		}
	}
	if cfg.Continual {
		ms.searchContinually(peek)
		ms.stats.Moves = cfg.Moves - ms.left
		return ms.best, ms.stats, nil
	}
	found := false
	for n, share := range candidateShares {
		if ms.over() {
			break
		}
		if n == 0 && len(m.Jobs) > manyJobs {
			continue
		}
		if ms.placesServe {
			share = lastShare
		}
		found = ms.candidate(n, share) || found
		peek()
	}
	switch {
	case ms.over() || ms.placesServe && found:
	case !found || ms.best == nil || len(ms.m.Jobs) <= fewJobs:
		// The surrogates have no place, or there are so few jobs that nearly all orders can be
		// tried.
		cfg := ms.part(1)
		cfg.StopAt, cfg.Report, cfg.Checkpoint = ms.cfg.StopAt, ms.cfg.Report, ms.cfg.Checkpoint
		p, stats, err := searchRelaxed(ctx, m, rel, ms.best, cfg, ms.big)
		ms.add(stats)
		return p, ms.stats, err
	default:
		ms.fill(ms.best, ms.best, ms.fillerRelaxation(ms.progress), ms.part(0.95))
	}
	return ms.best, ms.stats, nil
}

func (ms *mixedSearch) over() bool {
	return ms.left <= 0 || ms.ctx.Err() != nil ||
		ms.cfg.StopAt != 0 && ms.best != nil && ms.value.Float() <= ms.cfg.StopAt
}

func (ms *mixedSearch) add(o Stats) {
	ms.stats.Moves += o.Moves
	ms.stats.Evaluations += o.Evaluations
	ms.stats.Accepted += o.Accepted
}

// used returns the used share of the budget, from 0 to 1.
func (ms *mixedSearch) used() float64 {
	b := budget{ctx: ms.ctx, cfg: ms.cfg, left: ms.left}
	return b.share()
}

// part returns a configuration for a search that ends when share of the whole budget is
// used.
func (ms *mixedSearch) part(share float64) ImproveConfig {
	from := ms.used()
	cfg := ImproveConfig{Seed: ms.cfg.Seed, Workers: ms.cfg.Workers, Chains: ms.cfg.Chains,
		Without: ms.cfg.Without}
	affordable := int64(share*float64(ms.cfg.Moves)) - (ms.cfg.Moves - ms.left)
	cfg.Moves = max(1, min(ms.left, affordable))
	if ms.cfg.Elapsed != nil {
		whole := ms.cfg.Elapsed
		cfg.Elapsed = func() float64 { return (whole() - from) / math.Max(share-from, 1e-9) }
	}
	return cfg
}

// candidate makes plans from the n-th annealing. It returns false if the annealing finds no
// place.
func (ms *mixedSearch) candidate(n int, share float64) bool {
	from := ms.used()
	part := annealShare
	if ms.placesServe {
		part = placesShare
	}
	cfg := ms.part(from + part*max(0, share-from))
	gangs := gangSurrogates(ms.m, ms.filler)
	cfg.Seed += int64(n) << 32
	cfg.Moves = max(annealRate*cfg.Moves, int64(50*len(ms.m.Jobs)))
	surrogatePlan, stats, err := anneal(ms.ctx, gangs, ms.rel, nil, cfg)
	ms.stats.Accepted += stats.Accepted
	ms.stats.Evaluations += stats.Evaluations
	ms.stats.Moves += stats.Moves
	ms.left -= (stats.Moves + annealRate - 1) / annealRate
	if err != nil || surrogatePlan == nil {
		return false
	}
	if taken := ms.takePlaces(gangs, surrogatePlan); !taken {
		ms.placesServe = false
	}
	if ms.placesServe {
		return true
	}
	from = ms.used()
	for x, weight := range blendWeights {
		progress := ms.blendProgress(surrogatePlan, weight)
		cfg := ms.part(from + max(0, share-from)*float64(x+1)/float64(len(blendWeights)))
		if ms.fill(surrogatePlan, nil, ms.fillerRelaxation(progress), cfg) || ms.progress == nil {
			ms.progress = progress
		}
	}
	return true
}

// takePlaces puts the filler jobs at the places of their surrogates in plan, and justifies the result. It returns
// false where that is not a plan, or one of too many blocks.
func (ms *mixedSearch) takePlaces(gangs *model.Model, plan *place.Plan) bool {
	if slices.Contains(ms.big, true) || len(ms.m.Jobs) > mostForPlaces {
		return false
	}
	for _, i := range ms.filler {
		if ms.m.Jobs[i].Sync != hare.Relaxed && ms.m.Jobs[i].Tasks > gangs.Jobs[i].Tasks {
			return false // this gang needs several types at once
		}
	}
	ms.justifyAndKeep(atPlacesOfGangs(ms.m, gangs, plan))
	return true
}

// AnnealsMixture reports whether Improve mostly anneals the jobs of m, of which some are relaxed: others are not, and
// the places of surrogates may serve. It takes O(jobs).
func AnnealsMixture(m *model.Model) bool {
	notRelaxed := func(j model.Job) bool { return j.Sync != hare.Relaxed }
	return placesMayServe(m) && slices.ContainsFunc(m.Jobs, notRelaxed)
}

// placesMayServe reports whether there are few enough jobs for the places of surrogates, and jobs arrive over time.
func placesMayServe(m *model.Model) bool { return len(m.Jobs) <= mostForPlaces && !arriveTogether(m) }

// arriveTogether reports whether all jobs are released at the same time.
func arriveTogether(m *model.Model) bool {
	for i := range m.Jobs {
		if m.Jobs[i].ReleaseUs != m.Jobs[0].ReleaseUs {
			return false
		}
	}
	return true
}

// blendProgress returns the progress of the filler jobs, interpolated between that in
// the relaxation (weight 0) and that of their surrogates in plan (weight 1).
func (ms *mixedSearch) blendProgress(plan *place.Plan, weight float64) [][]hare.Point {
	out := make([][]hare.Point, len(ms.filler))
	for x, i := range ms.filler {
		rounds := float64(ms.m.Jobs[i].Rounds)
		start := float64(room.FirstStart(plan.Jobs[i]))
		long := float64(plan.EndUs[i]) - start
		pts := ms.rel.Progress[i]
		if len(pts) == 0 {
			pts = []hare.Point{{TimeUs: start}, {TimeUs: start + long, Rounds: rounds}}
		}
		for _, p := range pts {
			p.TimeUs += weight * (start + long*p.Rounds/rounds - p.TimeUs)
			out[x] = append(out[x], p)
		}
	}
	return out
}

// fillerRelaxation returns the relaxation for the filler jobs with the given progress.
func (ms *mixedSearch) fillerRelaxation(progress [][]hare.Point) *hare.Relaxation {
	return &hare.Relaxation{GridUs: ms.rel.GridUs, Prices: ms.rel.Prices, Progress: progress}
}

// fill leaves the annealed jobs where fixed has them, searches places for the filler
// jobs from start (or from rel alone if start is nil), and justifies the result. It
// reports whether the plan is better than all before.
func (ms *mixedSearch) fill(fixed, start *place.Plan, rel *hare.Relaxation, cfg ImproveConfig) bool {
	annealed := &place.Plan{Jobs: make([][]room.Block, len(ms.m.Jobs)), EndUs: make([]int64, len(ms.m.Jobs))}
	p := &place.Plan{Jobs: make([][]room.Block, len(ms.m.Jobs)), EndUs: make([]int64, len(ms.m.Jobs))}
	var value hare.Amount // the value of the annealed jobs
	for _, i := range ms.annealed {
		p.Jobs[i], p.EndUs[i] = fixed.Jobs[i], fixed.EndUs[i]
		annealed.Jobs[i] = fixed.Jobs[i]
		mj := &ms.m.Jobs[i]
		value = value.Add(hare.Product(mj.WeightMicro, p.EndUs[i]-mj.ReleaseUs))
	}
	var from *place.Plan
	if start != nil {
		from = &place.Plan{}
		for _, i := range ms.filler {
			from.Jobs, from.EndUs = append(from.Jobs, start.Jobs[i]), append(from.EndUs, start.EndUs[i])
		}
	}
	if ms.cfg.StopAt != 0 {
		cfg.StopAt = ms.cfg.StopAt - value.Float()
	}
	if cfg.StopAt <= 0 {
		cfg.StopAt = 0
	}
	cfg.Report = func(v hare.Amount) { ms.report(v.Add(value)) }
	filled, stats, err := searchRelaxedBeside(ms.ctx, ms.fillerModel, rel, from, annealed, cfg)
	ms.add(stats)
	ms.left -= stats.Moves
	if err != nil || filled == nil {
		return false
	}
	for x, i := range ms.filler {
		p.Jobs[i], p.EndUs[i] = filled.Jobs[x], filled.EndUs[x]
	}
	return ms.justifyAndKeep(p)
}

// justifyAndKeep justifies p while that helps, and keeps it if it is the best.
func (ms *mixedSearch) justifyAndKeep(p *place.Plan) bool {
	p = p.FromUnits(1) // justification changes blocks that other plans share
	res := place.NewRunResidual(ms.m, ms.big)
	for i := range p.Jobs {
		for x := range p.Jobs[i] {
			res.Reserve(&p.Jobs[i][x])
		}
	}
	for before := math.Inf(1); ms.ctx.Err() == nil && !ms.cfg.leavesOut(justification); {
		v := room.Weighted(ms.m, p.EndUs)
		if v >= before*(1-1e-5) {
			break
		}
		if before < math.Inf(1) && ms.used() >= 1 {
			break
		}
		before = v
		ms.left -= 2 * int64(len(ms.m.Jobs))
		res.Justify(ms.ctx, p)
	}
	v := p.Value(ms.m)
	if ms.best != nil && v.Cmp(ms.value) >= 0 {
		return false
	}
	ms.report(v)
	ms.best, ms.value = p, v
	return true
}

// report calls Report if v is better than all values before.
func (ms *mixedSearch) report(v hare.Amount) {
	if ms.cfg.Report != nil && (ms.best == nil || v.Cmp(ms.value) < 0) {
		ms.cfg.Report(v)
	}
}

const (
	// firstCandidate is the work of the first candidate of a continual search, for each job. It begins where
	// leastCandidate of it is left, since list schedules alone are far worse.
	firstCandidate = 8
	leastCandidate = 3
)

// searchContinually makes one candidate after another, each with twice the work of the one before, and after each
// candidate spends as much work on filling the best one better, unless the places of surrogates serve. A candidate
// begins where both fit into the limit.
func (ms *mixedSearch) searchContinually(peek func()) {
	left, whole := ms.cfg.Moves, ms.cfg
	work := firstCandidate * int64(len(ms.m.Jobs))
	least := 2 * leastCandidate * int64(len(ms.m.Jobs))
	for n := 0; whole.StopAt == 0 || ms.best == nil || ms.value.Float() > whole.StopAt; n++ {
		if left < least || ms.ctx.Err() != nil {
			break
		}
		part := *whole
		part.Moves = work
		ms.cfg, ms.left = &part, work
		ms.candidate(n, 1)
		left -= work - ms.left
		if ms.best != nil && ms.progress != nil && !ms.placesServe {
			ms.left = work
			ms.fill(ms.best, ms.best, ms.fillerRelaxation(ms.progress), ms.part(0.95))
			left -= work - ms.left
		}
		peek()
		work *= 2
		least = 2 * work
	}
	ms.cfg, ms.left = whole, left
}
