package solver

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/relax/branch"
	"github.com/hare-sched/hare/verify"
)

// Branch and bound comes after a first part of the search, whose plan prunes the tree. It proves the optimum of most
// instances of up to ten rigid jobs, and of some of up to treeJobs. Other instances of gang and rigid jobs are bounded
// by prices of each job, before the search or, where the search cannot use all cores, beside the search.
const (
	treeJobs     = 24
	treeWork     = 1 << 13                // the most jobs times GPUs of a tree
	treeShare    = 0.6                    // of the time after the price bound, where there may be a tree
	rootShare    = 0.25                   // of the time after the price bound, for prices of jobs
	provingShare = 0.25                   // the share of the time of a tree for the proof by package verify
	evaluations  = 8_000                  // without a limit
	rootPricings = 120_000                // without a limit: how often a job is priced where there is no tree
	fewer        = 3_000                  // where the gap that was asked for is reached
	branchWork   = 0.25                   // the share of a work limit
	searchSpan   = 100 * time.Millisecond // for each job, until a tree is tried
	longTree     = 10 * time.Second       // a tree that takes longer leaves time to the search
	rootSeconds  = 0.01                   // the time for each job below which the search has all of it
	sideSeconds  = 0.004                  // the same where the prices are found beside the search
	keptSeconds  = 0.005                  // the time for each job that prices of jobs leave to the search
	leastSeconds = 0.001                  // the time for each job in which they gain something
	rootCells    = 96                     // the grid of prices of jobs
	timedCells   = 384                    // the finest one where there is a time limit
	mixtureJobs  = 300                    // the most jobs, some of them relaxed, that get prices beside the search
	setCalls     = 10                     // the oracle calls that stand for the part of a job in a step
)

// grows reports whether a tree may follow the search.
func (s *solve) grows() bool {
	jobs := len(s.model.Jobs)
	return jobs > 1 && jobs <= treeJobs && jobs*len(s.model.GPUs) <= treeWork && branch.New(s.model) != nil
}

// branches reports whether branch and bound, or prices of jobs, follow the search.
func (s *solve) branches() bool {
	if s.opt.Bound != hare.MethodPrice || !s.searches() || s.stability.chargesMoves() || s.limits.unpriced ||
		s.cfg.Ablation.Branch || s.cfg.Ablation.Search {
		return false
	}
	if s.grows() {
		return true
	}
	jobs := len(s.model.Jobs)
	least := rootSeconds
	if s.besidePays() {
		least = sideSeconds
	}
	t := s.opt.TimeLimit.Seconds()
	return (t == 0 || jobs <= treeJobs || t >= least*float64(jobs)) && relax.PricesJobs(s.model) &&
		(!s.relaxes() || s.pricesRelaxed())
}

// relaxes reports whether some job is relaxed.
func (s *solve) relaxes() bool {
	return slices.ContainsFunc(s.model.Jobs, func(j model.Job) bool { return j.Sync == hare.Relaxed })
}

// pricesRelaxed reports whether prices of jobs are found although some job is relaxed: where rounds are wide, the
// clock ends the search, and there are few jobs, or a core that the search does not need.
func (s *solve) pricesRelaxed() bool {
	jobs, t := len(s.model.Jobs), s.opt.TimeLimit.Seconds()
	if t == 0 || s.opt.WorkLimit > 0 || !relax.WideRounds(s.model) {
		return false
	}
	return jobs <= greedy.StagedJobs || jobs <= mixtureJobs && t >= rootSeconds*float64(jobs) && s.besidePays() &&
		greedy.AnnealsMixture(s.model)
}

// improveAndBranch improves the incumbent, and raises the bound: by prices of jobs before the search, or by branch and
// bound behind a part of it.
func (s *solve) improveAndBranch(ctx context.Context, guide *hare.Relaxation) {
	switch {
	case !s.branches():
	case s.grows():
		s.improveAndGrow(ctx, guide)
		return
	case s.pricesBeside():
		s.improveBesidePrices(ctx, guide)
		return
	default:
		s.priceJobs(ctx)
	}
	s.improve(ctx, guide)
}

// improveAndGrow improves the incumbent, and proves it optimal where that is possible.
func (s *solve) improveAndGrow(ctx context.Context, guide *hare.Relaxation) {
	first, cancel := ctx, context.CancelFunc(func() {})
	clocked := s.opt.TimeLimit > 0 && s.opt.WorkLimit == 0
	if clocked {
		// The search of so few jobs ends soon, and goes on where the tree leaves time.
		span := min(time.Duration((1-treeShare)*float64(s.timeLeft())), time.Duration(len(s.model.Jobs))*searchSpan)
		first, cancel = context.WithTimeout(ctx, span)
	}
	cut := s.cut
	s.improve(first, guide)
	cancel()
	if ctx.Err() != nil || s.optimal() {
		return
	}
	s.cut = cut // the search did not end with the time of the solve
	s.branch(ctx, s.pricings())
	if clocked && ctx.Err() == nil && !s.gapReached() {
		s.improve(ctx, guide)
	}
}

// pricings returns how often all jobs may be priced; zero means no limit.
func (s *solve) pricings() int64 {
	most := s.limits.evaluations
	if s.gapReached() && (most == 0 || most > fewer) {
		most = fewer // a proof may cost next to nothing
	}
	return most
}

// evaluationWork is the work of an evaluation of all jobs, by a tree or by prices of jobs, which takes longer.
func (s *solve) evaluationWork() float64 {
	each := float64(max(1, len(s.model.Jobs))) * workPerCall
	if !s.grows() {
		each *= setCalls
	}
	return each
}

// optimal reports whether the bound is the value.
func (s *solve) optimal() bool {
	gap, ok := gapOf(s.value, s.best.rel)
	return ok && gap.Sign() == 0
}

// timeLeft returns the time until the reserve begins.
func (s *solve) timeLeft() time.Duration {
	return time.Duration(float64(s.opt.TimeLimit)*(1-s.limits.reserve)) - time.Since(s.began)
}

// branch raises the bound by branch and bound, with so many evaluations of prices at most, and takes
// over a better plan.
func (s *solve) branch(ctx context.Context, evaluations int64) {
	pr := branch.New(s.model)
	prices := s.priced
	if pr == nil || s.incumbent == nil || prices == nil || len(prices.Certificate.Pools) > 0 {
		return
	}
	s.event(PhaseBranch, true)
	part, cancel := ctx, context.CancelFunc(func() {})
	if s.opt.TimeLimit > 0 {
		span := (1 - provingShare) * float64(s.timeLeft())
		if span > float64(longTree) {
			span = max(float64(longTree), treeShare*span)
		}
		part, cancel = context.WithTimeout(ctx, time.Duration(span))
	}
	defer cancel()
	cfg := branch.Config{Places: s.places(), Prices: prices.Certificate, Evaluations: evaluations}
	cfg.Report = func(nodes int, bound float64) {
		s.treeNodes = nodes
		s.event(PhaseBranch, false)
	}
	out := branch.Run(part, pr, cfg)
	s.treeNodes = out.Nodes
	s.event(PhaseBranch, true)
	if part.Err() != nil {
		s.cut = true
	}
	if out.Places != nil {
		if p := s.planOf(out.Places); p != nil {
			s.updateIncumbent(p, nil)
		}
	}
	if out.Certificate == nil {
		return
	}
	s.keepBound(&hare.Relaxation{Method: hare.MethodBranch, Certified: true, Bound: out.Bound,
		Certificate: out.Certificate, Progress: prices.Progress, GridUs: prices.GridUs, Prices: prices.Prices})
}

// priceJobs raises the bound by prices of jobs.
func (s *solve) priceJobs(ctx context.Context) {
	if s.incumbent == nil || s.priced == nil || len(s.priced.Certificate.Pools) > 0 {
		return
	}
	cfg := relax.JobPricesConfig{Target: s.value.Float(), Steps: int(s.pricings()), Cells: rootCells,
		Workers: s.cfg.Workers, Quit: s.quit.Done()}
	part, cancel := ctx, context.CancelFunc(func() {})
	if s.opt.TimeLimit > 0 {
		left, jobs := s.timeLeft().Seconds(), float64(len(s.model.Jobs))
		span := rootShare * left
		if s.opt.WorkLimit == 0 {
			cfg.Cells = timedCells
			if jobs > treeJobs {
				// A busy machine may have left less time than the limit promises.
				if span = min(span, left-keptSeconds*jobs); span < leastSeconds*jobs {
					return
				}
			}
		}
		part, cancel = context.WithTimeout(ctx, time.Duration(span*float64(time.Second)))
	}
	defer cancel()
	if s.opt.TimeLimit == 0 && s.opt.WorkLimit == 0 {
		cfg.Steps = min(cfg.Steps, rootPricings/len(s.model.Jobs))
	}
	s.event(PhaseBranch, true)
	rel := relax.JobPrices(part, s.model, s.priced, cfg)
	if ctx.Err() != nil || s.opt.WorkLimit > 0 && part.Err() != nil {
		s.cut = true
	}
	if rel != nil {
		s.keepBound(rel)
	}
}

// places returns where the rigid jobs of the incumbent run.
func (s *solve) places() []branch.Place {
	out := make([]branch.Place, len(s.model.Jobs))
	for i, blocks := range s.incumbent.Jobs {
		b := &blocks[0]
		out[i] = branch.Place{Type: s.model.Classes[b.Class].Type, StartUs: b.StartUs}
	}
	return out
}

// planOf gives rigid jobs at places their GPUs; nil if they do not fit, which is a defect.
func (s *solve) planOf(places []branch.Place) *greedy.Plan {
	m := s.model
	free := make([]int64, len(m.GPUs)) // from when on
	for _, c := range m.Classes {
		from := hare.Forever
		if len(c.Windows) > 0 {
			from = c.Windows[0].StartUs
		}
		for _, g := range c.GPUs {
			free[g] = from
		}
	}
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(places[a].StartUs, places[b].StartUs), cmp.Compare(a, b))
	})
	sched := &hare.Schedule{}
	for i := range m.Jobs {
		sched.Jobs = append(sched.Jobs, s.inst.Jobs[i].ID)
	}
	for g := range m.GPUs {
		sched.Lanes = append(sched.Lanes, hare.Lane{GPU: m.GPUs[g].ID})
	}
	for _, i := range order {
		j, p := &m.Jobs[i], places[i]
		period := j.Modes[slices.IndexFunc(j.Modes, func(md model.Mode) bool { return md.Type == p.Type })].DurationUs()
		left := j.Tasks
		for g := range m.GPUs {
			if left == 0 || m.GPUs[g].Type != p.Type || free[g] > p.StartUs {
				continue
			}
			l := &sched.Lanes[g]
			l.Job, l.Round, l.Rounds = append(l.Job, int32(i)), append(l.Round, 0), append(l.Rounds, j.Rounds)
			l.Tasks, l.PeriodUs = append(l.Tasks, 1), append(l.PeriodUs, period)
			l.StartUs = append(l.StartUs, p.StartUs)
			free[g] = p.StartUs + j.Rounds*period
			left--
		}
	}
	value, _, faults := verify.ScheduleValue(s.inst, sched)
	if len(faults) > 0 {
		return nil
	}
	if plan := greedy.FromSchedule(m, sched); plan != nil && plan.Value(m).Cmp(value) == 0 {
		return plan
	}
	return nil
}
