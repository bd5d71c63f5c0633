package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Replan plans what is left of an earlier plan at an instant. Work that has started stays,
// and planned work moves only if the move gains more than the stability of the request. inst
// is the whole instance as it is now. The result is about the rest of inst, on a clock that
// starts at the instant, and its field Replan relates the rest to the whole. Faults of the
// request are InvalidErrors with pointers into the request.
//
// The candidates are the earlier plan with the jobs that must move placed beside it, the
// best new plan, and the plans that a search finds from each of the two if moves have their
// price. The answer is the candidate of least value + stability · GPU-time moved. The value
// and the bound of the result are of the objective alone.
func Replan(ctx context.Context, inst *hare.Instance, req hare.ReplanRequest, opt hare.Options,
	cfg Config) (*hare.Result, error) {
	began := time.Now()
	if err := replansBySearch(opt); err != nil {
		return nil, err
	}
	before, sched, err := previousSchedule(inst, &req)
	if err != nil {
		return nil, err
	}
	whole := WithObjective(inst, opt.Objective)
	r, err := derive(whole, before, sched, req.AtUs)
	if err != nil {
		return nil, err
	}
	r.report.StabilityMicro = req.StabilityMicro
	s, err := newSolve(ctx, r.inst, opt, cfg)
	if err != nil {
		return nil, err
	}
	s.began = began
	if len(greedy.Infeasible(s.model)) == 0 {
		old := greedy.FromSchedule(s.model, r.old)
		if old == nil {
			old = greedy.FromSchedule(s.model, &hare.Schedule{}) // nothing of the plan can stay
		}
		s.stability = &stabilitySearch{remainder: r, whole: whole, previous: old, price: float64(req.StabilityMicro)}
		// If a job has no place beside the rest, there is no plan to keep.
		work, cancel := s.context(keptShare)
		keep, err := greedy.Complete(work, s.model, old)
		cancel()
		if err == nil {
			s.stability.kept = keep
			v := keep.Value(s.model)
			r.report.KeptValue = &v
			if req.StabilityMicro > 0 {
				s.start = keep
			}
		} else if !errors.Is(err, greedy.ErrNoPlace) {
			s.cut = true
		}
	}
	res, err := s.run()
	if err != nil {
		return nil, err
	}
	res.Replan = r.report
	if s.incumbent == nil {
		return res, nil
	}
	res.Replan = s.stability.fillReplan(s)
	began = time.Now()
	// The verifier derives the rest again, from the instance and the previous result.
	rep := s.best.proof.CheckReplan(inst, res, &verify.Previous{Result: req.Previous, Instance: req.Before})
	if !rep.OK {
		return nil, fmt.Errorf("solver: %w: %s", ErrUnverified, rep)
	}
	res.Timing.Verify += time.Since(began)
	res.Timing.Total = time.Since(s.began)
	return res, nil
}

// CheckRequest returns the error with which Replan would refuse a request, before any
// work.
func CheckRequest(inst *hare.Instance, req hare.ReplanRequest, opt hare.Options, cfg Config) error {
	if err := replansBySearch(opt); err != nil {
		return err
	}
	before, sched, err := previousSchedule(inst, &req)
	if err != nil {
		return err
	}
	whole := WithObjective(inst, opt.Objective)
	r, err := derive(whole, before, sched, req.AtUs)
	if err != nil {
		return err
	}
	return Check(r.inst, opt, cfg)
}

// replannedRules are the kinds of rules by which the rests of plans go.
const replannedRules = hare.RuleNodes | hare.RuleProgress | hare.RuleRunning | hare.RuleReservations |
	hare.RuleQuota | hare.RuleAfter | hare.RuleTardiness | hare.RuleMakespan | hare.RuleLevels | hare.RuleSwitch |
	hare.RuleShapes | hare.RuleDurations

// previousSchedule finds and checks the instance and the schedule from which to replan.
func previousSchedule(inst *hare.Instance, req *hare.ReplanRequest) (*hare.Instance, *hare.Schedule, error) {
	if err := inst.RefuseRules("planning again", replannedRules); err != nil {
		return nil, nil, err
	}
	if req.Before != nil {
		if err := req.Before.RefuseRules("planning again", replannedRules); err != nil {
			return nil, nil, err
		}
	}
	prev, before, at := req.Previous, req.Before, "/previous_instance"
	if before == nil {
		before, at = inst, "/instance"
	}
	switch {
	case prev == nil:
		return nil, nil, &hare.InvalidError{Pointer: "/previous", Code: "missing_field",
			Detail: "give the result to go on from"}
	case !req.HasAt:
		return nil, nil, &hare.InvalidError{Pointer: "/at_s", Code: "missing_field",
			Detail: "give the planning instant, in seconds on the clock of the previous schedule"}
	case req.AtUs < 0 || req.AtUs > hare.MaxExact:
		return nil, nil, &hare.InvalidError{Pointer: "/at_s", Code: "out_of_range", Detail: "must be between 0 and " +
			hare.FormatMicros(hare.MaxExact)}
	case req.StabilityMicro < 0 || req.StabilityMicro > hare.MaxExact:
		return nil, nil, &hare.InvalidError{Pointer: "/stability", Code: "out_of_range",
			Detail: "must be between 0 and " +
				hare.FormatMicros(hare.MaxExact)}
	}
	before = WithObjective(before, prev.Options.Objective)
	sched, field, sha := prev.Schedule, "/previous/schedule", wire.SHA256(before)
	switch {
	// The instance at hand is the whole even where the rest is the same instance on a later clock.
	case prev.Replan != nil && prev.Replan.InstanceSHA256 == sha:
		if sched, field = prev.Replan.Whole, "/previous/replan/schedule"; sched == nil &&
			prev.Replan.WholeMissing != "" {
			return nil, nil, &hare.InvalidError{Pointer: field, Code: "missing_field",
				Detail: "there is no schedule of the whole instance (" + prev.Replan.WholeMissing +
					"): go on from replan.instance instead, given as previous_instance, on its clock"}
		}
	case prev.InstanceSHA256 == "" || prev.InstanceSHA256 == sha:
	default:
		return nil, nil, &hare.InvalidError{Pointer: "/previous/instance_sha256", Code: "wrong_instance",
			Detail: "the previous result belongs to another instance than the one at " + at +
				": give the one that it was for as previous_instance"}
	}
	if sched == nil {
		return nil, nil, &hare.InvalidError{Pointer: field, Code: "missing_field",
			Detail: "the previous result has no schedule: keep one with detail lanes"}
	}
	if _, _, faults := verify.ScheduleValue(before, sched); len(faults) > 0 {
		return nil, nil, &hare.InvalidError{Pointer: field, Code: "refused",
			Detail: "it is not a schedule of the instance at " + at + ": " + faults[0].String()}
	}
	return before, sched, nil
}

// keptShare is the share of the time by which jobs that must move are placed beside
// those that stay. Without such a plan there is no plan to keep.
const keptShare = 0.3

// stabilityShare is the share of the time after the bounds for the search with priced
// moves.
const stabilityShare = 0.35

// stabilityMoves is the work of the search with priced moves for each job, within the
// limits.
const (
	stabilityMoves    = 600
	minStabilityMoves = 6000
	maxStabilityMoves = 30_000
)

// moveCostShares are the shares of the price of moves that the search uses in turn.
// While moves are cheap, it finds jobs that must move together; when moves are dear, it
// puts jobs back.
var moveCostShares = [...]float64{0.1, 0.3, 1}

// moveCost returns the price of job i's moves at blocks in these shapes, in 1e-12 weight-seconds.
func (ss *stabilitySearch) moveCost(m *model.Model, i int, blocks []greedy.Block, shapes greedy.JobShapes) float64 {
	j := &ss.remainder.jobs[i]
	if j.why != "" || len(j.planned) == 0 ||
		ss.previous.ShapesOf(i) == shapes && slices.Equal(blocks, ss.previous.Jobs[i]) {
		return 0
	}
	return ss.price * movedUs(j.planned, taskRuns(m, i, blocks, shapes))
}

// cost returns value + stability · GPU-time moved, in 1e-12 weight-seconds.
func (ss *stabilitySearch) cost(m *model.Model, p *greedy.Plan) float64 {
	sum := 0.0
	if m.Instance.FirstRule(0) != "" {
		sum = p.Value(m).Float() * 1e12
		for i := range m.Jobs {
			sum += ss.moveCost(m, i, p.Jobs[i], p.ShapesOf(i))
		}
		return sum
	}
	for i := range m.Jobs {
		sum += float64(m.Jobs[i].WeightMicro)*float64(p.EndUs[i]-m.Jobs[i].ReleaseUs) +
			ss.moveCost(m, i, p.Jobs[i], p.ShapesOf(i))
	}
	return sum
}

// choose selects a plan; of equal plans it takes the one that moves less.
func (ss *stabilitySearch) choose(ctx context.Context, s *solve) {
	if !ss.chargesMoves() {
		s.updateIncumbent(ss.kept, nil)
		return
	}
	moves := int64(min(maxStabilityMoves, max(minStabilityMoves, stabilityMoves*len(s.model.Jobs))))
	if s.opt.WorkLimit > 0 {
		moves = min(moves, max(1, s.opt.WorkLimit/4))
	}
	found := s.incumbent
	starts := []*greedy.Plan{found}
	if ss.kept != nil {
		starts = []*greedy.Plan{ss.kept, found}
	}
	best, least := starts[0], ss.cost(s.model, starts[0])
	offer := func(p *greedy.Plan) {
		if c := ss.cost(s.model, p); c < least {
			best, least = p, c
		}
	}
	offer(found)
	if s.limits.large {
		starts = nil // one move may take most of the time
	}
	runs := len(starts) * (1 + len(moveCostShares))
	for n, from := range starts {
		search := func(p *greedy.Plan, k int, price float64) *greedy.Plan {
			share, cancel := shareOf(ctx, runs-n*(1+len(moveCostShares))-k)
			defer cancel()
			p = greedy.RuinAndRecreate(share, s.model, p, greedy.RuinAndRecreateConfig{
				Seed: s.opt.Seed + int64(n*8+k)<<32, Moves: max(1,
					moves/int64(runs)), Previous: ss.previous, DescentOnly: k == 0,
				MoveCost: func(i int, blocks []greedy.Block, shapes greedy.JobShapes) float64 {
					return price * ss.moveCost(s.model, i, blocks, shapes)
				},
			})
			if share.Err() != nil {
				s.cut = true
			}
			offer(p)
			return p
		}
		search(from, 0, 1)
		for k, price := range moveCostShares {
			from = search(from, k+1, price)
		}
	}
	s.incumbent, s.value = best, best.Value(s.model)
}

// shareOf returns a context with one of so many equal shares of the time that ctx has
// left.
func shareOf(ctx context.Context, shares int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(shares))
}
