package solver

import (
	"context"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
)

// relaxations finds the certified bound and the guide of the search.
func (s *solve) relaxations(ctx context.Context) (guide *hare.Relaxation, err error) {
	s.event(PhaseBound, true)
	began := time.Now()
	defer func() { s.res.Timing.Relax = time.Since(began) }()
	background := context.WithoutCancel(ctx)
	for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
		if method == hare.MethodMachine && s.inst.Objective == hare.ObjectiveMakespan {
			continue
		}
		rel, err := relax.Run(background, s.model, relax.Config{Method: method, Workers: s.cfg.Workers})
		if err != nil {
			return nil, fmt.Errorf("bound: %w", err)
		}
		s.keepBound(rel)
		if method == s.opt.Order {
			guide = rel
		}
	}
	for _, method := range []string{s.opt.Bound, s.opt.Order} {
		if method != relax.MethodQueyranne && method != relax.MethodPaper || guide != nil && guide.Method == method {
			continue
		}
		rel, err := relax.Run(ctx, s.model, relax.Config{Method: method, LP: s.cfg.LP, Workers: s.cfg.Workers})
		switch {
		case err == nil:
			s.keepBound(rel)
			if method == s.opt.Order {
				guide = rel
			}
		case ctx.Err() == nil:
			s.clocked = true // the engine failed, and may not fail another time
		default:
			s.cut = true
		}
	}
	if s.pricesWanted() && !s.limits.unpriced && !s.climbs() {
		guide = s.priceAndPlan(ctx, guide, warmStart(s.model, s.cfg.WarmPrices))
	}
	return guide, s.fault
}

// priceAndPlan finds prices for the bound and for the search, from those of another relaxation if there is one, and
// returns the guide of the search.
func (s *solve) priceAndPlan(ctx context.Context, guide, from *hare.Relaxation) *hare.Relaxation {
	plans := s.opt.Order == hare.MethodPrice && s.searches() && !s.cfg.Ablation.PlanPrices
	var first *hare.Relaxation
	as := ascent{effort: s.limits.boundEffort, gain: s.limits.minGain, cells: s.limits.cells, lps: s.limits.maxLPs}
	if plans && s.limits.samePlan {
		first = s.plan(from)
		from = first
		if s.planBounds(first) {
			as.effort, as.cells = s.limits.restEffort, s.limits.planCells
		}
	}
	s.event(PhaseBound, true)
	share, cancel := s.context(s.limits.boundShare)
	as.from = from
	rel := s.price(share, as)
	cancel()
	s.keepPrices(rel)
	switch {
	case s.opt.Order != hare.MethodPrice:
		return guide
	case first != nil:
		guide = first
	default:
		guide = rel
	}
	// Without relaxed jobs the prices are the same, but on a coarser grid more steps are
	// averaged for the order.
	if plans && first == nil && ctx.Err() == nil {
		if from = rel; s.cfg.Ablation.PlanWarmStart {
			from = nil
		}
		guide = s.plan(from)
	}
	if s.cfg.Ablation.SearchPrices && guide != nil {
		blind := *guide
		blind.GridUs, blind.Prices = nil, nil
		guide = &blind
	}
	return guide
}

// plan finds prices for the search, from those of another relaxation if there is one. A plan that is the same under
// each limit makes all of its steps. Without relaxed jobs, it solves no linear programs: they end with the limit.
func (s *solve) plan(from *hare.Relaxation) *hare.Relaxation {
	s.event(PhasePlan, true)
	share, cancel := s.context(s.limits.planShare)
	defer cancel()
	as := ascent{charge: s.limits.charge, effort: s.limits.planEffort, gain: s.limits.minGain,
		cells: s.limits.planCells, lps: s.limits.maxLPs, from: from}
	if s.limits.samePlan {
		if as.gain = 0; !s.relaxes() {
			as.lps = -1
		}
	}
	rel := s.price(share, as)
	s.keepPrices(rel)
	return rel
}

// keepPrices keeps the best certified bound, and the best of those by prices for branch and bound.
func (s *solve) keepPrices(rel *hare.Relaxation) {
	s.keepBound(rel)
	if rel != nil && rel.Certified && (s.priced == nil || rel.Bound.Cmp(s.priced.Bound) > 0) {
		s.priced = rel
	}
}

// ascent says how prices are found; the fields but charge are those of relax.Config.
type ascent struct {
	charge       planCharge // none for a bound
	effort, gain float64
	cells, lps   int
	from         *hare.Relaxation // prices to start from, if there are any
}

// price finds prices.
func (s *solve) price(ctx context.Context, as ascent) *hare.Relaxation {
	// The effort of the ascent then depends on the number of cores.
	s.clocked = s.clocked || s.opt.TimeLimit > 0
	var improved func(*hare.Relaxation)
	if s.cfg.Progress != nil || s.cfg.Checkpoint != nil {
		// These bounds are only shown: the answer must not depend on who watches.
		improved = func(rel *hare.Relaxation) {
			s.showBound(rel)
			s.shownAt = time.Now()
			s.event(s.phase, true)
		}
	}
	rel, err := relax.Run(ctx, s.model, relax.Config{
		Improved: improved, WantImproved: s.boundDue, Quit: s.quit.Done(), LP: s.cfg.LP, Workers: s.cfg.Workers,
		SyncAsCompute: as.charge.sync, IdleCharge: as.charge.idle, Effort: as.effort, WarmStart: as.from,
		Cells: as.cells, MinGain: as.gain, MaxLPs: as.lps,
		Steps: s.limits.steps, StepWork: s.limits.stepWork, NoSizes: s.cfg.Ablation.Sizes,
		Report: func(float64) { s.event(s.phase, false) },
	})
	if ctx.Err() != nil {
		s.cut = true
	}
	if err != nil {
		return nil
	}
	return rel
}

// planBounds reports whether prices of jobs soon raise the bound of a plan for the search above that of an ascent for
// the bound. In a quarter of a short limit they do so only for few jobs.
func (s *solve) planBounds(plan *hare.Relaxation) bool {
	return plan != nil && plan.Certified && s.branches() && !s.grows() &&
		(s.concurrencyPays() || len(s.model.Jobs) <= greedy.StagedJobs)
}

// warmStart reads the prices of a certificate for the types of m; types without prices
// are free. It returns nil if there are no such prices. The truth of the bound does not
// depend on these prices.
func warmStart(m *model.Model, c *hare.Certificate) *hare.Relaxation {
	if c == nil || len(c.GridUs) < 2 || c.GridUs[0] != 0 {
		return nil
	}
	cells := len(c.GridUs) - 1
	for g := range cells {
		if c.GridUs[g+1] <= c.GridUs[g] || c.GridUs[g+1] > hare.MaxExact {
			return nil
		}
	}
	rel := &hare.Relaxation{GridUs: c.GridUs, Prices: make([][]float64, len(m.Types))}
	for k := range m.Types {
		rel.Prices[k] = make([]float64, cells)
		for _, p := range c.Prices {
			if p.Type != m.Types[k] || len(p.Nanos) != cells {
				continue
			}
			for g, x := range p.Nanos {
				rel.Prices[k][g] = float64(max(0, x)) * 1e-9
			}
		}
	}
	return rel
}
