package search

import (
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/model"
)

// exactSearch is another search, and then a search case by case: for few tasks, some of them of relaxed jobs, on GPUs
// that are there all the time. Under a clock the other search goes on where the cases take too long.
var exactSearch = search{
	name: "exact",
	supports: func(rq *request) bool {
		return rq.inClasses() && rq.cfg.shaped == nil && rq.start != nil && fewCases(rq.m)
	},
	continual: always,
	run:       searchExactly,
}

// These are the shares of the time by which the other search has found a first plan, and by which the cases end.
// Without a clock the cases take up to exactOps elementary steps for each move of the other search.
const (
	exactFrom  = 0.15
	exactUntil = 0.8
	exactOps   = 6000
	nodeOps    = 400 // of a node, and for each job of it nodeJobOps
	nodeJobOps = 60
	firstProof = 5_000  // nodes, before it is tried to prove that the plan is the best one
	nextProof  = 20_000 // nodes, after a better plan was found
)

// fewCases reports whether the instance is one of those that are searched case by case.
func fewCases(m *model.Model) bool {
	if len(m.Jobs) < 2 || len(m.Jobs) > exactJobs || len(m.GPUs) > exactGPUs || len(m.Types) > exactTypes ||
		m.Instance.Objective != hare.ObjectiveWeightedJCT || m.Instance.FirstRule(0) != "" {
		return false
	}
	for c := range m.Classes {
		if w := m.Classes[c].Windows; len(w) != 1 || w[0].StartUs > 0 || w[0].EndUs < hare.Forever {
			return false
		}
	}
	tasks, relaxed := int64(0), false
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Mix || j.GPUs != 1 || j.Rounds > exactTasks || j.Tasks > exactTasks {
			return false
		}
		switch j.Sync {
		case hare.Relaxed:
			relaxed = true
			tasks += j.Rounds * j.Tasks
		case hare.Gang:
			tasks += j.Rounds
		default:
			tasks++
		}
	}
	return relaxed && tasks <= exactTasks
}

// searchExactly runs exactSearch.
func searchExactly(ctx context.Context, rq *request) (*place.Plan, Stats, error) {
	cfg := rq.cfg
	cfg.Without = append(slices.Clone(cfg.Without), "exact")
	first := cfg
	if cfg.Elapsed != nil {
		first = during(cfg, 0, exactFrom)
	}
	best, stats, err := rq.improve(ctx, rq.m, rq.rel, rq.start, first)
	if err != nil || best == nil || ctx.Err() != nil || reached(best, rq) {
		return best, stats, err
	}
	ep := newExactProblem(rq.m, slices.Max(best.EndUs))
	if ep != nil {
		best, stats.Exhausted = ep.improve(ctx, rq, best)
	}
	if cfg.Elapsed == nil || stats.Exhausted || ctx.Err() != nil || reached(best, rq) {
		return best, stats, nil
	}
	from := cfg.Elapsed()
	last := during(cfg, from, 1)
	last.Moves = max(1, cfg.Moves-stats.Moves)
	best, more, err := rq.improve(ctx, rq.m, rq.rel, best, last)
	stats.Moves += more.Moves
	stats.Evaluations += more.Evaluations
	stats.Accepted += more.Accepted
	return best, stats, err
}

// during returns a configuration whose clock goes from 0 to 1 between two shares of that of cfg.
func during(cfg ImproveConfig, from, until float64) ImproveConfig {
	whole := cfg.Elapsed
	cfg.Elapsed = func() float64 { return (whole() - from) / max(until-from, 1e-9) }
	cfg.JobSeconds *= until - from
	return cfg
}

// reached reports whether a plan reaches the target.
func reached(p *place.Plan, rq *request) bool {
	return rq.cfg.StopAt != 0 && p.Value(rq.m).Float() <= rq.cfg.StopAt
}

// improve searches case by case for a better plan than best, and reports whether there is none.
func (ep *exactProblem) improve(ctx context.Context, rq *request, best *place.Plan) (*place.Plan, bool) {
	m, cfg := rq.m, &rq.cfg
	et := &exactTree{exactProblem: ep}
	over := func() bool {
		if ctx.Err() != nil || cfg.StopAt != 0 && best.Value(m).Float() <= cfg.StopAt {
			return true
		}
		if cfg.Elapsed != nil {
			return cfg.Elapsed() >= exactUntil
		}
		return ep.work+float64(et.nodes)*float64(nodeOps+nodeJobOps*len(ep.jobs)) > exactOps*float64(cfg.Moves)
	}
	prover := &exactProver{ctx: ctx, prove: cfg.Prove}
	et.over = func() bool {
		// Under a clock a proof is tried on another core. It meets no state twice, and may end long before the tree.
		if cfg.Elapsed != nil && et.nodes >= prover.from {
			prover.start(best, ep.certificate())
		}
		return prover.done(false) || over()
	}
	for i := range ep.jobs {
		et.best += int64(ep.jobs[i].w) * ((best.EndUs[i] + ep.unit - 1) / ep.unit)
	}
	et.improved = func() {
		p := ep.planOf(et.plan)
		if p == nil || p.Value(m).Cmp(best.Value(m)) >= 0 {
			return
		}
		best = p
		prover.cancel()
		prover.from = et.nodes + nextProof
		if cfg.Report != nil {
			cfg.Report(p.Value(m))
		}
		if cfg.Checkpoint != nil {
			cfg.Checkpoint(func() *place.Plan { return best })
		}
	}
	ep.setPrices(rq.rel)
	ep.ascend(over)
	if over() {
		return best, false
	}
	prover.from = firstProof
	all := et.search()
	if all {
		prover.start(best, ep.certificate())
		prover.done(true)
	}
	prover.cancel()
	return best, all || prover.proved
}

// exactProver tries to prove that a plan is the best one, beside the search.
type exactProver struct {
	ctx    context.Context
	prove  func(context.Context, *place.Plan, *hare.Certificate) (keep func())
	from   int64 // from this node on
	stop   context.CancelFunc
	result chan func() // nil where no proof is under way
	tried  bool        // for the best plan
	proved bool
}

// start begins a proof, unless one of the best plan was tried before.
func (pv *exactProver) start(best *place.Plan, c *hare.Certificate) {
	if pv.tried || pv.prove == nil || c == nil {
		return
	}
	pv.tried = true
	ctx, stop := context.WithCancel(pv.ctx)
	result := make(chan func(), 1)
	pv.stop, pv.result = stop, result
	go func() { result <- pv.prove(ctx, best, c) }()
}

// done reports whether the best plan is proved to be so, and keeps the proof. It may wait for the proof.
func (pv *exactProver) done(wait bool) bool {
	if pv.result == nil || pv.proved {
		return pv.proved
	}
	if !wait && len(pv.result) == 0 {
		return false
	}
	keep := <-pv.result
	pv.stop()
	pv.result = nil
	if keep != nil {
		keep()
		pv.proved = true
	}
	return pv.proved
}

// cancel ends a proof that is under way; there may be one of another plan.
func (pv *exactProver) cancel() {
	if pv.result != nil {
		pv.stop()
		<-pv.result
		pv.result = nil
	}
	pv.tried = false
}
