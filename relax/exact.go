package relax

import (
	"context"
	"math"
	"math/big"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// exactMargin is how far a float cost may lie above the least, as a share of the terms
// from which it was computed, and still be evaluated exactly. Such costs are wrong by at
// most 1e-11 of these terms: some hundred terms, after sums that have fallen to
// 1/cancelled at most.
const exactMargin = 1e-9

// exactTerms limits the number of terms of a sum that is kept as one rational. With more
// jobs, each job's φ is first rounded down to 2^-40 units of 1e-15.
const exactTerms = 256

// exactBound returns the price bound on the weighted JCT at integer prices, in 1e-15
// weight-seconds, rounded down by at most 2^-40 a job in large instances. If step is not
// 0, relaxed jobs are also bounded round by round. No float decides the result: floats
// only select the pieces that are worth exact evaluation, with a margin far above their
// error.
func (e *evaluator) exactBound(ctx context.Context, grid []int64, nanos [][]int64, step int64) (*big.Rat, error) {
	rows, paid := e.pr.oracleRows(), e.pr.oracleNanos(nanos)
	pi := &prices{grid: make([]float64, len(grid)), at: make([][]float64, len(paid))}
	for i, t := range grid {
		pi.grid[i] = float64(t)
	}
	for r, row := range paid {
		pi.at[r] = make([]float64, len(row))
		for g, x := range row {
			pi.at[r][g] = float64(x) / float64(rows[r].gpus)
		}
	}
	pi.integrate()
	version := e.nextVersion()
	if len(e.pr.edges) > 0 {
		e.stepJobs = nil // their weights are others now
	}
	e.loadSteps(step, grid, paid)
	// fluids sums the bounds of the fluids, gains what bounding round by round adds to them.
	fluids, gains := make([]*big.Rat, len(e.chunks)), make([]*big.Rat, len(e.chunks))
	e.phi, e.gain = make([]float64, len(e.pr.jobs)), make([]float64, len(e.pr.jobs))
	err := e.each(ctx, func(o *oracle, c, lo, hi int) {
		o.setPrices(pi, version)
		fluids[c], gains[c] = new(big.Rat), new(big.Rat)
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			x := exactJob{pr: e.pr, at: i, o: o, j: &e.pr.jobs[i], mj: &e.pr.specs[i], rows: rows, nanos: paid, grid: grid,
				path: e.pr.pathUs[i]}
			phi := x.least()
			more := e.stepPhi(i, phi, o)
			phi, more = e.floor(phi), e.floor(more)
			more.Sub(more, phi)
			e.phi[i], _ = phi.Float64()
			e.gain[i], _ = more.Float64()
			fluids[c].Add(fluids[c], phi)
			gains[c].Add(gains[c], more)
		}
	})
	if err != nil {
		return nil, err
	}
	total, more := new(big.Rat), new(big.Rat)
	for c := range fluids {
		total.Add(total, fluids[c])
		more.Add(more, gains[c])
	}
	fixed := new(big.Int)
	if e.moved != nil {
		fixed.Neg(e.moved)
	}
	for i := range e.pr.specs {
		if e.pr.jobs[i].until == 0 {
			weight := e.pr.model.Jobs[e.pr.index[i]].WeightMicro
			fixed.Add(fixed, product(weight, nano, e.pr.releaseUs(i)))
		}
	}
	e.capacity = e.capacity[:0]
	for _, cost := range e.pr.capacityCost(grid, nanos) {
		fixed.Add(fixed, cost)
		c, _ := new(big.Float).SetInt(cost).Float64()
		e.capacity = append(e.capacity, c)
	}
	total.Sub(total, new(big.Rat).SetInt(fixed))
	if e.statedStep = e.bestStep(more, total); e.statedStep > 0 {
		total.Add(total, more)
		for i, x := range e.gain {
			e.phi[i] += x
		}
	}
	return total, nil
}

// floor rounds down to a multiple of 2^-40 if sums of exact fractions would get long.
func (e *evaluator) floor(x *big.Rat) *big.Rat {
	if len(e.pr.jobs) <= exactTerms {
		return new(big.Rat).Set(x)
	}
	n := new(big.Int).Lsh(x.Num(), 40)
	return new(big.Rat).SetFrac(n.Div(n, x.Denom()), new(big.Int).Lsh(big.NewInt(1), 40))
}

// exactJob evaluates φ of one job.
type exactJob struct {
	pr    *problem
	at    int // the index of the job
	o     *oracle
	j     *job
	mj    *model.Job
	rows  []row
	nanos [][]int64 // by row
	grid  []int64
	path  int64
}

// candidate is a last piece, or a rigid start, that is worth exact evaluation.
type candidate struct {
	start float64
	crit  segment // the last segment of the filling
	final bool    // whether crit lies in the last piece
}

func (ej *exactJob) least() *big.Rat {
	var ans answer
	switch {
	case ej.j.scenarios != nil:
		return ej.meanLeast()
	case ej.j.shapes != nil:
		return ej.leastShape()
	case ej.j.pathOnly:
		return new(big.Rat).SetInt(ej.cost(ej.path))
	case ej.j.sync == hare.Rigid:
		return ej.leastRigid(&ans)
	}
	ej.o.solve(ej.j, &ans, false)
	cs := ej.o.candidates(ej.j, ans.phi+exactMargin*(ans.phi+ans.scale)+1)
	var best *big.Rat
	for i := range cs {
		if v := ej.piece(&cs[i]); best == nil || v.Cmp(best) < 0 {
			best = v
		}
	}
	// A multiplier that cancellation has spoilt may prove less than the path does.
	path := new(big.Rat).SetInt(ej.cost(ej.path))
	if best != nil && best.Cmp(path) < 0 {
		return path
	}
	return best
}

// leastShape is least for a job that keeps its shape.
func (ej *exactJob) leastShape() *big.Rat {
	var best *big.Rat
	for s := range ej.j.shapes {
		one := *ej
		one.j = ej.j.inShape(s)
		if v := one.least(); v != nil && (best == nil || v.Cmp(best) < 0) {
			best = v
		}
	}
	return best
}

// modeUs returns the times of mode i of the job, which floats hold exactly.
func (ej *exactJob) modeUs(i int) (computeUs, durationUs int64) {
	md := &ej.j.modes[i]
	return int64(md.p), int64(md.d)
}

// cost returns w C + v max(0, C − d) of an end at C, in 1e-15.
func (ej *exactJob) cost(end int64) *big.Int {
	sum := product(ej.mj.WeightMicro, nano, end)
	if late := end - ej.mj.DeadlineUs; late > 0 && ej.mj.LateWeightMicro > 0 {
		sum.Add(sum, product(ej.mj.LateWeightMicro, nano, late))
	}
	return sum
}

// weightFrom returns the weight of time after t, up to the deadline if that is later.
func (ej *exactJob) weightFrom(t float64) int64 {
	if ej.mj.LateWeightMicro > 0 && t >= float64(ej.mj.DeadlineUs) {
		return ej.mj.WeightMicro + ej.mj.LateWeightMicro
	}
	return ej.mj.WeightMicro
}

// perRound returns n = d·c of mode i: the cost of a round there, in 1e-15, if a
// GPU-second costs price and each second weight beside that.
func (ej *exactJob) perRound(i int, price, weight int64) *big.Int {
	p, d := ej.modeUs(i)
	if ej.j.sync == hare.Gang {
		p = d
	}
	var n *big.Int
	if tasks, g, _ := ej.shapeOf(i); g > 1 && ej.mj.Sync == hare.Relaxed {
		n = product(tasks, price, p)
		n.Mul(n, big.NewInt(g/ej.rows[ej.j.modes[i].row].gpus)) // tasks · g may not fit
	} else {
		n = product(ej.units(i), price, p)
	}
	if weight > 0 {
		n.Add(n, product(weight, nano, d))
	}
	return n
}

func (ej *exactJob) price(i int, cell int32) int64 {
	if cell < 0 {
		return 0
	}
	return ej.nanos[ej.j.modes[i].row][cell]
}

// counts returns the units that a round does in each mode; nil means one in each.
func (ej *exactJob) counts() []*big.Int {
	if ej.mj.Shapes == nil {
		return nil
	}
	counts := make([]*big.Int, len(ej.j.modes))
	for i := range counts {
		_, _, u := ej.shapeOf(i)
		counts[i] = big.NewInt(u)
	}
	return counts
}

// shapeOf returns the tasks of a round in mode i, their GPUs and the units that the round does.
func (ej *exactJob) shapeOf(i int) (tasks, gpus, counts int64) {
	return ej.pr.shapeOf(ej.at, &ej.j.modes[i])
}

// units returns how many times a job pays the price of mode i's row.
func (ej *exactJob) units(i int) int64 {
	tasks, gpus, _ := ej.shapeOf(i)
	return tasks * gpus / ej.rows[ej.j.modes[i].row].gpus
}

// piece returns the dual for the last piece that starts at c.start, at the slope μ where
// the float filling ended. The dual is valid for any μ.
func (ej *exactJob) piece(c *candidate) *big.Rat {
	n := len(ej.j.modes)
	s := &c.crit
	inLast, inCrit := ej.weightFrom(c.start), int64(0)
	if c.final {
		inCrit = inLast
	}
	num := ej.perRound(int(s.to), ej.price(int(s.to), s.tcell), inCrit)
	// μ is num/den for each unit; a round of mode i does counts[i] units.
	counts := ej.counts()
	bigDen := big.NewInt(1)
	if counts != nil {
		bigDen.Set(counts[s.to])
	}
	if s.from >= 0 {
		_, da := ej.modeUs(int(s.from))
		_, db := ej.modeUs(int(s.to))
		na := ej.perRound(int(s.from), ej.price(int(s.from), s.fcell), inCrit)
		num.Mul(num, big.NewInt(da))
		num.Sub(num, na.Mul(na, big.NewInt(db)))
		bigDen.Mul(bigDen, big.NewInt(da))
		if counts == nil {
			bigDen.Sub(bigDen, big.NewInt(db))
		} else {
			bigDen.Sub(bigDen, product(1, db, counts[s.from]))
		}
	}
	// sums holds Σ over pieces of len·(μ u − n)/d for each mode.
	sums := make([]*big.Int, n)
	for i := range sums {
		sums[i] = new(big.Int)
	}
	add := func(t, end float64, pos []int, weight int64) {
		bestMode := -1
		var best, bestD *big.Int
		for i := range n {
			_, d := ej.modeUs(i)
			v := ej.perRound(i, ej.price(i, ej.o.trailing[i][pos[i]].cell), weight)
			v.Mul(v, bigDen)
			if counts == nil {
				v.Sub(num, v)
			} else {
				v.Sub(new(big.Int).Mul(num, counts[i]), v)
			}
			if v.Sign() <= 0 {
				continue
			}
			bd := big.NewInt(d)
			if bestMode < 0 || new(big.Int).Mul(v, bestD).Cmp(new(big.Int).Mul(best, bd)) > 0 {
				bestMode, best, bestD = i, v, bd
			}
		}
		if bestMode >= 0 {
			sums[bestMode].Add(sums[bestMode], best.Mul(best, big.NewInt(int64(end-t))))
		}
	}
	infinite := false
	ej.o.pieces(ej.j, func(t, end float64, pos []int) bool {
		if ej.j.until > 0 && t >= c.start {
			return false
		}
		last, weight := t >= c.start, int64(0)
		if last {
			weight = inLast
		}
		if last && math.IsInf(end, 1) {
			infinite = true
			// An endless piece allows no μ above its least cost of a round.
			for i := range n {
				lim := ej.perRound(i, 0, inLast)
				lim.Mul(lim, bigDen)
				if counts != nil {
					lim.Div(lim, counts[i])
				}
				if lim.Cmp(num) < 0 {
					num.Set(lim)
				}
			}
			return false
		}
		add(t, end, pos, weight)
		return !last
	})
	if infinite {
		// μ may have been lowered, so the sums are computed again without the endless piece.
		for i := range sums {
			sums[i].SetInt64(0)
		}
		ej.o.pieces(ej.j, func(t, end float64, pos []int) bool {
			if t >= c.start {
				return false
			}
			add(t, end, pos, 0)
			return true
		})
	}
	total := new(big.Rat).SetInt(ej.cost(int64(c.start)))
	total.Add(total, new(big.Rat).SetFrac(new(big.Int).Mul(num, big.NewInt(ej.mj.Rounds)), bigDen))
	for i, s := range sums {
		_, d := ej.modeUs(i)
		total.Sub(total, new(big.Rat).SetFrac(s, new(big.Int).Mul(bigDen, big.NewInt(d))))
	}
	return total
}

// pieces calls f for each piece [t, end) of the job's time, with the position of each
// mode in its trailing minimum, until f returns false. o.loadTrailing(j) must have run.
func (o *oracle) pieces(j *job, f func(t, end float64, pos []int) bool) {
	pos := make([]int, len(j.modes))
	for t := j.a; ; {
		end := o.pieceEnd(j, t, pos)
		if !f(t, end, pos) || math.IsInf(end, 1) {
			return
		}
		t = end
		o.advance(j, t, pos)
	}
}

// candidates returns the last pieces whose cost may be at most limit.
func (o *oracle) candidates(j *job, limit float64) []candidate {
	var out []candidate
	o.base.reset()
	o.pieces(j, func(t, end float64, pos []int) bool {
		if j.until > 0 && t >= j.until {
			o.last = o.last[:0]
			if _, crit, _ := o.fill(j, t); crit != nil {
				out = append(out, candidate{t, *crit, false})
			}
			return false
		}
		if t >= j.path && j.until == 0 {
			if j.cost(t) > limit {
				return false
			}
			o.last = o.hull(o.last[:0], j, pos, t, end-t, j.weightFrom(t), o.base.useful(j.rounds))
			if cost, crit, final := o.fill(j, t); crit != nil && cost <= limit+exactMargin*(j.cost(t)+o.base.cost) {
				out = append(out, candidate{t, *crit, final})
			}
		}
		if !math.IsInf(end, 1) {
			o.last = o.hull(o.last[:0], j, pos, t, end-t, 0, o.base.useful(j.rounds))
			for _, s := range o.last {
				o.base.insert(s, j.rounds)
			}
		}
		return true
	})
	return out
}

func (ej *exactJob) leastRigid(ans *answer) *big.Rat {
	ej.o.solve(ej.j, ans, false)
	var best *big.Int
	first := cellOf(ej.o.pi.grid, ej.j.a)
	for i := range ej.j.modes {
		// Costs are differences of integrals that start at 0.
		md := &ej.j.modes[i]
		all := ej.o.pi.cum[md.row]
		limit := ans.phi + exactMargin*(ans.phi+md.held*all[len(all)-1]) + 1
		_, d := ej.modeUs(i)
		length := int64(ej.j.rounds) * d
		row := ej.nanos[ej.j.modes[i].row]
		ej.o.starts(ej.j, i, first, limit, func(start, _, cost float64) bool {
			if cost > limit {
				return true
			}
			s := int64(start)
			v := ej.cost(s + length)
			for g := cellFrom(ej.o.pi.grid, first, start); g < len(row) && ej.grid[g] < s+length; g++ {
				if l := min(ej.grid[g+1], s+length) - max(ej.grid[g], s); l > 0 {
					v.Add(v, product(ej.units(i), row[g], l))
				}
			}
			if best == nil || v.Cmp(best) < 0 {
				best = v
			}
			return true
		})
	}
	if best == nil {
		return nil
	}
	return new(big.Rat).SetInt(best)
}

// meanLeast is least for a job of uncertain duration.
func (ej *exactJob) meanLeast() *big.Rat {
	sum := new(big.Rat)
	for s := range ej.j.scenarios {
		one := *ej
		one.j = &ej.j.scenarios[s]
		one.j.w, one.path = ej.j.w, int64(one.j.path)
		v := one.least()
		sum.Add(sum, v.Mul(v, big.NewRat(one.j.micro, 1_000_000)))
	}
	return sum
}
