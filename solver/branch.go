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

// improveAndBranch improves the incumbent, and raises the bound: by prices of jobs before the search, or by branch and
// bound behind a part of it.
func (s *solve) improveAndBranch(ctx context.Context, guide *hare.Relaxation) {
	switch {
	case !s.branches():
	case s.grows():
		s.improveAndGrow(ctx, guide)
		return
	case s.pricesConcurrently():
		s.improveWhilePricing(ctx, guide)
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
