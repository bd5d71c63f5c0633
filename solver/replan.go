package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// Replan plans what is left of an earlier plan at an instant: work that has
// started stays, and planned work moves where that brings more than stability
// asks. inst is the whole instance as it is now; the result is about the rest of
// it, on a clock that starts at the instant, and its Replan says how both hang
// together. Faults of the request are InvalidErrors with pointers into it.
//
// Of the plans met, the answer is the one of least value + stability · GPU-time
// moved: the earlier plan with what must move put beside it, the best new plan,
// and those that a search from each of them finds with moves at their price.
// Value and bound are of the objective alone.
func Replan(ctx context.Context, inst *hare.Instance, req hare.ReplanRequest, opt hare.Options, cfg Config) (*hare.Result, error) {
	began := time.Now()
	before, sched, err := earlier(inst, &req)
	if err != nil {
		return nil, err
	}
	r, err := derive(inst, before, sched, req.AtUs)
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
		s.settle = &settling{rest: r, whole: inst, old: old, price: float64(req.StabilityMicro)}
		// What has no place beside the rest leaves no plan to keep.
		work, cancel := s.context(keepShare)
		keep, err := greedy.Complete(work, s.model, old)
		cancel()
		if err == nil {
			s.settle.keep = keep
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
	res.Replan = s.settle.tell(s)
	began = time.Now()
	// The verifier derives the rest once more, by itself, from what was given.
	rep := s.best.proof.CheckReplan(inst, res, &verify.Previous{Result: req.Previous, Instance: req.Before})
	if !rep.OK {
		return nil, fmt.Errorf("solver: %w: %s", ErrUnverified, rep)
	}
	res.Timing.Verify += time.Since(began)
	res.Timing.Total = time.Since(s.began)
	return res, nil
}

// CheckRequest reports what Replan would refuse of a request, before the work.
func CheckRequest(inst *hare.Instance, req hare.ReplanRequest, opt hare.Options, cfg Config) error {
	before, sched, err := earlier(inst, &req)
	if err != nil {
		return err
	}
	r, err := derive(inst, before, sched, req.AtUs)
	if err != nil {
		return err
	}
	return Check(r.inst, opt, cfg)
}

// earlier finds the instance and the schedule to go on from, and checks them.
func earlier(inst *hare.Instance, req *hare.ReplanRequest) (*hare.Instance, *hare.Schedule, error) {
	prev, before, at := req.Previous, req.Before, "/previous_instance"
	if before == nil {
		before, at = inst, "/instance"
	}
	switch {
	case prev == nil:
		return nil, nil, &hare.InvalidError{Pointer: "/previous", Code: "missing_field", Detail: "give the result to go on from"}
	case !req.HasAt:
		return nil, nil, &hare.InvalidError{Pointer: "/at_s", Code: "missing_field", Detail: "give the planning instant, in seconds on the clock of the previous schedule"}
	case req.AtUs < 0 || req.AtUs > hare.MaxExact:
		return nil, nil, &hare.InvalidError{Pointer: "/at_s", Code: "out_of_range", Detail: "must be between 0 and " + hare.FormatMicros(hare.MaxExact)}
	case req.StabilityMicro < 0 || req.StabilityMicro > hare.MaxExact:
		return nil, nil, &hare.InvalidError{Pointer: "/stability", Code: "out_of_range", Detail: "must be between 0 and " + hare.FormatMicros(hare.MaxExact)}
	}
	sched, field, sha := prev.Schedule, "/previous/schedule", wire.SHA256(before)
	switch {
	case prev.InstanceSHA256 == "" || prev.InstanceSHA256 == sha:
	case prev.Replan != nil && prev.Replan.InstanceSHA256 == sha:
		if sched, field = prev.Replan.Whole, "/previous/replan/schedule"; sched == nil && prev.Replan.WholeMissing != "" {
			return nil, nil, &hare.InvalidError{Pointer: field, Code: "missing_field", Detail: "there is no schedule of the whole instance (" + prev.Replan.WholeMissing + "): go on from replan.instance instead, given as previous_instance, on its clock"}
		}
	default:
		return nil, nil, &hare.InvalidError{Pointer: "/previous/instance_sha256", Code: "wrong_instance", Detail: "the previous result belongs to another instance than the one at " + at + ": give the one that it was for as previous_instance"}
	}
	if sched == nil {
		return nil, nil, &hare.InvalidError{Pointer: field, Code: "missing_field", Detail: "the previous result has no schedule: keep one with detail lanes"}
	}
	if _, _, faults := verify.ScheduleValue(before, sched); len(faults) > 0 {
		return nil, nil, &hare.InvalidError{Pointer: field, Code: "refused", Detail: "it is no schedule of the instance at " + at + ": " + faults[0].String()}
	}
	return before, sched, nil
}

// keepShare is the part of the time by which what must move is put beside what
// stays, or there is no plan to keep.
const keepShare = 0.3

// settleShare is the part of the time after the bounds that the search with
// priced moves gets.
const settleShare = 0.35

// settleMoves is the work of that search for each job, within the limits.
const (
	settleMoves = 600
	settleLeast = 6000
	settleMost  = 30_000
)

// settlePrices are the shares of the price of moves that the search goes
// through: what moves together is found while moves are cheap, and put back
// when they are dear.
var settlePrices = [...]float64{0.1, 0.3, 1}

// settling chooses between plans by value and moves.
type settling struct {
	rest  *rest
	whole *hare.Instance
	old   *greedy.Plan // the earlier plan's blocks, of jobs that can stay
	keep  *greedy.Plan // with the others beside them; nil where they have no place
	price float64      // stability, in 1e-12 weight-seconds per GPU-µs
}

// prices says that moves have a price.
func (x *settling) prices() bool { return x != nil && x.price > 0 }

// moved is the price of job i's moves at blocks, in 1e-12 weight-seconds.
func (x *settling) moved(m *hare.Model, i int, blocks []greedy.Block) float64 {
	j := &x.rest.jobs[i]
	if j.why != "" || len(j.planned) == 0 || slices.Equal(blocks, x.old.Jobs[i]) {
		return 0
	}
	return x.price * movedUs(j.planned, pieces(m, blocks))
}

// cost is value + stability · GPU-time moved, in 1e-12 weight-seconds.
func (x *settling) cost(m *hare.Model, p *greedy.Plan) float64 {
	sum := 0.0
	for i := range m.Jobs {
		sum += float64(m.Jobs[i].WeightMicro)*float64(p.EndUs[i]-m.Jobs[i].ReleaseUs) + x.moved(m, i, p.Jobs[i])
	}
	return sum
}

// choose settles on a plan. Of equal ones it takes that which moves less.
func (x *settling) choose(ctx context.Context, s *solve) {
	if !x.prices() {
		s.take(x.keep, nil)
		return
	}
	moves := int64(min(settleMost, max(settleLeast, settleMoves*len(s.model.Jobs))))
	if s.opt.WorkLimit > 0 {
		moves = min(moves, max(1, s.opt.WorkLimit/4))
	}
	found := s.incumbent
	starts := []*greedy.Plan{found}
	if x.keep != nil {
		starts = []*greedy.Plan{x.keep, found}
	}
	best, least := starts[0], x.cost(s.model, starts[0])
	offer := func(p *greedy.Plan) {
		if c := x.cost(s.model, p); c < least {
			best, least = p, c
		}
	}
	offer(found)
	if s.limits.large {
		starts = nil // one move may take most of the time
	}
	runs := len(starts) * (1 + len(settlePrices))
	for n, from := range starts {
		search := func(p *greedy.Plan, k int, price float64) *greedy.Plan {
			share, cancel := shareOf(ctx, runs-n*(1+len(settlePrices))-k)
			defer cancel()
			p = greedy.RuinAndRecreate(share, s.model, p, greedy.RuinAndRecreateConfig{
				Seed: s.opt.Seed + int64(n*8+k)<<32, Moves: max(1, moves/int64(runs)), Previous: x.old, DescentOnly: k == 0,
				MoveCost: func(i int, blocks []greedy.Block) float64 { return price * x.moved(s.model, i, blocks) },
			})
			if share.Err() != nil {
				s.cut = true
			}
			offer(p)
			return p
		}
		search(from, 0, 1)
		for k, price := range settlePrices {
			from = search(from, k+1, price)
		}
	}
	s.incumbent, s.value = best, best.Value(s.model)
}

// shareOf is one of so many equal shares of the time that ctx has left.
func shareOf(ctx context.Context, shares int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(shares))
}

// tell reports what the plan of s moves, when s is finished, and puts it
// together with what has run.
func (x *settling) tell(s *solve) *hare.Replan {
	told, m, p := *x.rest.report, s.model, s.incumbent
	rep := &told
	for i := range x.rest.jobs {
		j := &x.rest.jobs[i]
		if j.added {
			continue
		}
		id := x.rest.inst.Jobs[i].ID
		moved, all := movedTime(j.planned, pieces(m, p.Jobs[i]))
		rep.PlannedGPU = rep.PlannedGPU.Add(all)
		rep.MovedGPU = rep.MovedGPU.Add(moved)
		if j.why != "" {
			rep.ForcedGPU = rep.ForcedGPU.Add(moved)
		}
		if moved.Sign() == 0 && j.why != hare.MovedLost {
			rep.Kept = append(rep.Kept, id)
			continue
		}
		to := hare.JobPlace{StartUs: s.res.Jobs[i].StartUs + x.rest.at, EndUs: p.EndUs[i] + x.rest.at}
		for _, b := range p.Jobs[i] {
			to.Types = append(to.Types, m.Types[m.Classes[b.Class].Type])
		}
		slices.Sort(to.Types)
		to.Types = slices.Compact(to.Types)
		why := j.why
		switch {
		case why != "":
		case to.EndUs < j.from.EndUs:
			why = hare.MovedEarlier
		default:
			why = hare.MovedMadeWay
		}
		rep.Moved = append(rep.Moved, hare.MovedJob{ID: id, From: j.from, To: to, GPU: moved, Why: why})
	}
	whole, err := x.rest.compose(x.whole, s.res.Schedule)
	if rep.Whole = whole; err != nil {
		rep.WholeMissing = err.Error()
	}
	return rep
}
