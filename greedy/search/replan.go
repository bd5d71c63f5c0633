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

// A session plans again at each event, in milliseconds, and most of the plan that it had is still right. So the order
// and the types of that plan are one of the first states, the orders of the relaxation are others, and a short
// annealing improves the best of them.

// Hint is what a plan that was made a little earlier had of a job.
type Hint struct {
	// Types are the types of the job's rounds there, as indices in Model.Types; nil means
	// that the earlier plan did not have the job.
	Types []int
	// StartUs is when the job's next round started there. Jobs are placed in this order;
	// those that the earlier plan did not have stand by the relaxation.
	StartUs int64
}

// Replan plans gang and rigid jobs again, with the prices of rel and what an earlier plan
// had of each job. List scheduling makes two states: in the order and on the types of the
// earlier plan, and in the order of the relaxation. cfg.Moves of simulated annealing
// improve the better one; less than zero means none.
//
// Replan takes O(jobs · steps of the capacities) and no more than some milliseconds for
// some hundred jobs, where Assign and Improve take ten times as long. A model in which
// some job needs several types at once goes to Assign and Improve. Where nodes or quotas matter
// there is no annealing.
func Replan(ctx context.Context, m *model.Model, rel *hare.Relaxation, hints []Hint,
	cfg ImproveConfig) (*place.Plan, Stats, error) {
	var nodes *room.Layout
	if m.Placed {
		nodes = room.NewLayout(m)
	}
	ap, ok := newAnnealProblem(m, rel, nil, nodes)
	if !ok {
		return replanSlowly(ctx, m, rel, cfg)
	}
	an := newAnnealing(ap, &cfg)
	ls := newListScheduler(ap)
	best, ranks, plan := math.Inf(1), ap.priorities(rel), make([]room.JobPlan, len(ap.jobs))
	try := func(order []int32, plans func(int32, func(room.JobPlan) bool)) {
		if v, fits := ls.schedule(ctx, order, replanLambda, plans, plan); fits && v < best {
			best, an.key, an.plan = v, keysOf(order), slices.Clone(plan)
		}
	}
	hinted := make([]room.JobPlan, len(ap.jobs)) // those with n = 0 are not hinted
	if slices.ContainsFunc(hints, func(h Hint) bool { return h.Types != nil }) {
		rank := slices.Clone(ranks[0])
		for i := range ap.jobs {
			if h := &hints[ap.jobs[i].Index]; h.Types != nil {
				rank[i], hinted[i] = float64(h.StartUs), hintedPlan(&ap.jobs[i], h)
			}
		}
		try(orderBy(rank), func(i int32, try func(room.JobPlan) bool) {
			if hinted[i].N == 0 || !try(hinted[i]) {
				ls.somePlans(i, try)
			}
		})
	}
	for n, rank := range ranks {
		if n > 1 && ls.work >= cfg.Moves/moreStates {
			break
		}
		placed := 0
		try(orderBy(rank), func(i int32, try func(room.JobPlan) bool) {
			if placed++; cfg.First == 0 || placed <= cfg.First || hinted[i].N == 0 || !try(hinted[i]) {
				ls.somePlans(i, try)
			}
		})
	}
	switch {
	case ctx.Err() != nil:
		return nil, Stats{}, ctx.Err()
	case an.key == nil:
		return nil, Stats{}, place.ErrNoPlace
	}
	if !an.decoder.decode(an.key, an.plan) {
		return replanSlowly(ctx, m, rel, cfg)
	}
	an.improveIncumbent(an.exactValue(an.decoder.end), an.decoder.end)
	if cfg.Moves > 0 && nodes == nil {
		an.runChains(ctx)
	}
	return an.bestPlan(), an.stats(), nil
}

// moreStates is the share of the moves, as 1 / moreStates, within which Replan makes more
// states.
const moreStates = 8

// replanLambda is the share of the price that a place in a state of Replan is charged.
const replanLambda = 1

// replanSlowly is Replan for models in which some jobs have no place on one type alone.
func replanSlowly(ctx context.Context, m *model.Model, rel *hare.Relaxation, cfg ImproveConfig) (*place.Plan, Stats,
	error) {
	plan, err := place.Assign(ctx, m, place.Order(m, rel, "relaxation"), place.Insertion)
	if err != nil || cfg.Moves < 0 {
		return plan, Stats{}, err
	}
	return Improve(ctx, m, rel, plan, cfg)
}

// somePlans tries a rigid job in one piece on each type, and a gang round by round: on
// each type, on all of the few fastest types, and on the best of these with each other.
func (ls *listScheduler) somePlans(i int32, try func(room.JobPlan) bool) {
	j := &ls.p.jobs[i]
	if j.Rigid {
		ls.inOnePiece(i, try)
		return
	}
	few := j.RoundTypes[:min(len(j.RoundTypes), room.MaxTypes)]
	best := int16(-1)
	for _, k := range few {
		if try(room.RoundByRoundOver(k)) {
			best = k
		}
	}
	if len(few) < 2 || best < 0 {
		return
	}
	for _, k := range few {
		if k != best {
			try(room.RoundByRoundOver(min(best, k), max(best, k)))
		}
	}
	if len(few) > 2 {
		try(room.RoundByRoundOver(few...))
	}
}

// hintedPlan is the plan of a job on the types of a hint, with n = 0 where the job has no
// place on them.
func hintedPlan(aj *room.Job, h *Hint) room.JobPlan {
	var types []int16
	for _, t := range h.Types {
		k := int16(t)
		switch {
		case aj.Rigid && slices.Contains(aj.ContiguousTypes, k):
			return room.ContiguousOn(k)
		case !aj.Rigid && slices.Contains(aj.RoundTypes, k) && !slices.Contains(types, k) && len(types) < room.MaxTypes:
			types = append(types, k)
		}
	}
	slices.Sort(types)
	return room.RoundByRoundOver(types...)
}
