package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A replan weighs a better plan against moving what was planned. Most of the plan is good already, so that the search
// keeps it and only takes out a job with a few others that run at the same time, and places these again: ruin and
// recreate, after Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record breaking optimization results using the
// ruin and recreate principle" (J. Comput. Physics 159, 2000), accepted as in simulated annealing. What departs from
// it: one third of the moves of a job with a previous place put it back there and take out those that are in the way.

// RuinAndRecreateConfig tunes RuinAndRecreate.
type RuinAndRecreateConfig struct {
	Seed int64
	// Moves limits the work: one move is one job placed once.
	Moves int64
	// DescentOnly rejects every change that raises the cost.
	DescentOnly bool
	// Previous is the plan before the change; a job without blocks had no place.
	Previous *place.Plan
	// MoveCost returns the cost of having job i at blocks in these shapes instead of its previous
	// place, in 1e-12 weight-seconds.
	MoveCost func(i int, blocks []room.Block, shapes place.JobShapes) float64
}

const (
	ruinStartTemperature = 0.02 // the first temperature, in costs over the number of jobs
	maxRuined            = 3    // the jobs removed beside the one that gets another place
	ruinTries            = 12   // the jobs examined to find them
	maxEvicted           = 6    // the jobs removed to put one back to its previous place
	// comparisonsPerMove is the number of compared pairs of blocks that count as a move.
	comparisonsPerMove = 50_000
)

// RuinAndRecreate is a local search from start for the plan with the least sum of value
// and cost of moves. A step removes a job and a few others (ruin). It places the job
// elsewhere: early, at its previous place, or at its previous place up to a round and
// early from there. Then it places each of the others where that costs least: at its
// present place, at its previous place, or early (recreate). The returned plan never
// costs more than start. The result depends on the clock only through ctx, whose end is
// not an error. Where nodes matter, jobs wait for others, GPUs need setups, jobs have shapes
// or the objective is the makespan, a step chooses which jobs stay at their previous places and in which
// order the others are placed beside them: see staySearch.
func RuinAndRecreate(ctx context.Context, m *model.Model, start *place.Plan, cfg RuinAndRecreateConfig) *place.Plan {
	if m.Placed || room.HasAfter(m) || room.IsMakespan(m) || room.HasSetups(m) || place.HasShapes(m) {
		return searchStays(ctx, m, start, &cfg)
	}
	rr := &ruinRecreate{m: m, cfg: &cfg, r: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x737465616479)),
		plan:     &place.Plan{Jobs: slices.Clone(start.Jobs), EndUs: slices.Clone(start.EndUs)},
		residual: place.NewRunResidual(m, place.BigJobs(m, place.MaxTasksByRound)), cost: make([]float64, len(m.Jobs)),
		left: cfg.Moves}
	rr.residual.ReservePlan(rr.plan)
	sum := 0.0
	for i := range m.Jobs {
		rr.cost[i] = rr.costOf(i, rr.plan.Jobs[i], rr.plan.EndUs[i])
		sum += rr.cost[i]
	}
	if len(m.Jobs) == 0 {
		return start
	}
	best, bestSum := &place.Plan{Jobs: slices.Clone(rr.plan.Jobs), EndUs: slices.Clone(rr.plan.EndUs)}, sum
	for rr.left > 0 && ctx.Err() == nil {
		t := ruinStartTemperature * sum / float64(len(m.Jobs)) * float64(rr.left) / float64(cfg.Moves)
		if cfg.DescentOnly {
			t = 0
		}
		sum += rr.step(t)
		if sum < bestSum*(1-1e-12) {
			bestSum = sum
			copy(best.Jobs, rr.plan.Jobs)
			copy(best.EndUs, rr.plan.EndUs)
		}
	}
	return best
}

type ruinRecreate struct {
	m        *model.Model
	cfg      *RuinAndRecreateConfig
	r        *rand.Rand
	plan     *place.Plan // its blocks are never changed in place
	residual *place.Residual
	cost     []float64
	left     int64
	ruined   []int // scratch: the removed jobs
}

// placement is where a job may go.
type placement struct {
	blocks []room.Block
	end    int64
	cost   float64
}

func (rr *ruinRecreate) costOf(i int, blocks []room.Block, end int64) float64 {
	j := &rr.m.Jobs[i]
	cost := float64(j.WeightMicro)*float64(end-j.ReleaseUs) + rr.cfg.MoveCost(i, blocks, place.JobShapes{})
	if j.LateWeightMicro > 0 && end > j.DeadlineUs {
		cost += float64(j.LateWeightMicro) * float64(end-j.DeadlineUs)
	}
	return cost
}

// step tries one change and returns by how much the cost has changed.
func (rr *ruinRecreate) step(temperature float64) float64 {
	i := rr.r.IntN(len(rr.m.Jobs))
	rr.ruined = append(rr.ruined[:0], i)
	was := len(rr.cfg.Previous.Jobs[i]) > 0
	back := was && rr.r.IntN(3) == 0
	if back {
		if !rr.evictBlockers(i) {
			rr.left--
			return 0
		}
	} else {
		rr.ruinOverlapping(i)
	}
	olds := make([]placement, len(rr.ruined))
	before := 0.0
	for x, j := range rr.ruined {
		olds[x] = placement{rr.plan.Jobs[j], rr.plan.EndUs[j], rr.cost[j]}
		before += rr.cost[j]
		rr.releaseAll(rr.plan.Jobs[j])
	}
	after, placed, ok := 0.0, 0, true
	for x, j := range rr.ruined {
		var at placement
		switch {
		case x > 0:
			at, ok = rr.cheapest(j, &olds[x])
		case back:
			at, ok = rr.placeAt(j, rr.cfg.Previous.Jobs[j], rr.cfg.Previous.EndUs[j])
		default:
			at, ok = rr.placeAnew(j, &olds[x])
		}
		if !ok {
			break
		}
		rr.plan.Jobs[j], rr.plan.EndUs[j], rr.cost[j] = at.blocks, at.end, at.cost
		after += at.cost
		placed++
	}
	if ok && (after <= before || rr.r.Float64() < math.Exp((before-after)/max(temperature, 1e-9))) {
		return after - before
	}
	for _, j := range rr.ruined[:placed] {
		rr.releaseAll(rr.plan.Jobs[j])
	}
	for x, j := range rr.ruined {
		rr.plan.Jobs[j], rr.plan.EndUs[j], rr.cost[j] = olds[x].blocks, olds[x].end, olds[x].cost
		for y := range olds[x].blocks {
			rr.residual.Reserve(&olds[x].blocks[y])
		}
	}
	return 0
}

// ruinOverlapping adds to the set up to maxRuined jobs that run before job i ends.
func (rr *ruinRecreate) ruinOverlapping(i int) {
	want := rr.r.IntN(maxRuined + 1)
	for range ruinTries {
		if len(rr.ruined) > want {
			return
		}
		j := rr.r.IntN(len(rr.m.Jobs))
		if slices.Contains(rr.ruined, j) || rr.plan.EndUs[j] <= rr.m.Jobs[i].ReleaseUs ||
			room.FirstStart(rr.plan.Jobs[j]) >= rr.plan.EndUs[i] {
			continue
		}
		rr.ruined = append(rr.ruined, j)
	}
}

// evictBlockers adds to the set the jobs that hold GPUs at the previous place of job i:
// jobs that overlap with it, one after another, until the previous place is free. It
// returns false if there are too many, or if job i is at its previous place.
func (rr *ruinRecreate) evictBlockers(i int) bool {
	old := rr.cfg.Previous.Jobs[i]
	if slices.Equal(old, rr.plan.Jobs[i]) {
		return false
	}
	rr.releaseAll(rr.plan.Jobs[i])
	fits := rr.reserveAll(old)
	for j := 0; j < len(rr.m.Jobs) && !fits && len(rr.ruined) <= maxEvicted; j++ {
		if j == i || rr.plan.EndUs[j] <= rr.m.Jobs[i].ReleaseUs ||
			room.FirstStart(rr.plan.Jobs[j]) >= rr.cfg.Previous.EndUs[i] {
			continue
		}
		rr.left -= int64(len(old)) * int64(len(rr.plan.Jobs[j])) / comparisonsPerMove
		if !overlap(old, rr.plan.Jobs[j]) {
			continue
		}
		rr.ruined = append(rr.ruined, j)
		rr.releaseAll(rr.plan.Jobs[j])
		fits = rr.reserveAll(old)
	}
	if fits {
		rr.releaseAll(old)
	}
	for _, j := range rr.ruined {
		for x := range rr.plan.Jobs[j] {
			rr.residual.Reserve(&rr.plan.Jobs[j][x])
		}
	}
	return fits
}

// overlap reports whether blocks of a and b hold GPUs of the same class at the same
// time.
func overlap(a, b []room.Block) bool {
	for x := range a {
		for y := range b {
			if a[x].Class == b[y].Class && a[x].StartUs < b[y].EndUs() && b[y].StartUs < a[x].EndUs() {
				return true
			}
		}
	}
	return false
}

func (rr *ruinRecreate) releaseAll(blocks []room.Block) {
	for x := range blocks {
		rr.residual.Release(&blocks[x])
	}
}

// reserveAll reserves all blocks if they fit, or none.
func (rr *ruinRecreate) reserveAll(blocks []room.Block) bool {
	for x := range blocks {
		b := &blocks[x]
		if rr.residual.Profiles[b.Class].MinFree(b.StartUs, b.EndUs()-b.StartUs) < b.Width {
			rr.releaseAll(blocks[:x])
			return false
		}
		rr.residual.Reserve(b)
	}
	return true
}

// placeAt places job i at blocks if they fit.
func (rr *ruinRecreate) placeAt(i int, blocks []room.Block, end int64) (placement, bool) {
	rr.left--
	if len(blocks) == 0 || !rr.reserveAll(blocks) {
		return placement{}, false
	}
	return placement{blocks, end, rr.costOf(i, blocks, end)}, true
}

// placeAnew places job i early: all rounds, or those from a random round on.
func (rr *ruinRecreate) placeAnew(i int, now *placement) (placement, bool) {
	j := &rr.m.Jobs[i]
	rr.left--
	if j.Sync != hare.Rigid && !rr.residual.Big[i] && j.Rounds > 1 && rr.r.IntN(2) == 0 {
		from := now.blocks
		if old := rr.cfg.Previous.Jobs[i]; len(old) > 0 && rr.r.IntN(2) == 0 {
			from = old
		}
		round := 1 + rr.r.Int64N(j.Rounds-1)
		if kept := roundsBefore(from, round); rr.reserveAll(kept) {
			blocks, end, ok := rr.residual.PlaceTail(i, round, kept)
			if !ok {
				rr.releaseAll(kept)
				return placement{}, false
			}
			return placement{blocks, end, rr.costOf(i, blocks, end)}, true
		}
	}
	blocks, end, ok := rr.residual.PlaceWholeJob(i, nil)
	if !ok {
		return placement{}, false
	}
	return placement{blocks, end, rr.costOf(i, blocks, end)}, true
}

// cheapest places job i at the cheapest of three places: the present one, the previous
// one, or an early one.
func (rr *ruinRecreate) cheapest(i int, now *placement) (placement, bool) {
	best, ok := rr.placeAt(i, now.blocks, now.end)
	try := func(p placement, fits bool) {
		if !fits {
			return
		}
		rr.releaseAll(p.blocks)
		if !ok || p.cost < best.cost {
			best, ok = p, true
		}
	}
	if ok {
		rr.releaseAll(best.blocks)
	}
	if old := rr.cfg.Previous.Jobs[i]; len(old) > 0 {
		try(rr.placeAt(i, old, rr.cfg.Previous.EndUs[i]))
	}
	rr.left--
	if blocks, end, fits := rr.residual.PlaceWholeJob(i, nil); fits {
		try(placement{blocks, end, rr.costOf(i, blocks, end)}, true)
	}
	for x := range best.blocks {
		rr.residual.Reserve(&best.blocks[x])
	}
	return best, ok
}

// roundsBefore returns the parts of the blocks that lie before round.
func roundsBefore(blocks []room.Block, round int64) []room.Block {
	var out []room.Block
	for _, b := range blocks {
		if n := min(b.Rounds, round-b.Round); n > 0 {
			b.Rounds = n
			out = append(out, b)
		}
	}
	return out
}
