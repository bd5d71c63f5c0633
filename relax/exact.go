package relax

import (
	"context"
	"math"
	"math/big"

	"github.com/hare-sched/hare"
)

// near is how far, as a share of the terms that it was made from, a float cost
// may lie above the least and still be evaluated exactly. Such costs are wrong
// by 1e-11 of that at most: some hundred terms, after sums that have fallen to
// 1/cancelled at most.
const near = 1e-9

// exactTerms limits the sum that is kept as one rational: beyond, each job's
// φ is first rounded down to 2^-40 units of 1e-15.
const exactTerms = 256

// exactBound is the price bound on the weighted JCT at integer prices, in
// 1e-15 weight-seconds, rounded down by at most 2^-40 a job in large
// instances; relaxed jobs also round by round where step is not 0. No float decides what is returned: floats only pick the pieces
// that are worth evaluating, with a margin far over their error.
func (e *evaluator) exactBound(ctx context.Context, grid []int64, nanos [][]int64, step int64) (*big.Rat, error) {
	pi := &prices{grid: make([]float64, len(grid)), at: make([][]float64, len(nanos))}
	for i, t := range grid {
		pi.grid[i] = float64(t)
	}
	for r, row := range nanos {
		pi.at[r] = make([]float64, len(row))
		for g, x := range row {
			pi.at[r][g] = float64(x) / float64(e.pr.rows[r].tasks)
		}
	}
	pi.integrate()
	version := e.next()
	e.loadSteps(step, grid, nanos)
	// Two sums: of fluids, and of what rounds add to them.
	fluids, gains := make([]*big.Rat, len(e.chunks)), make([]*big.Rat, len(e.chunks))
	e.phi, e.gain = make([]float64, len(e.pr.jobs)), make([]float64, len(e.pr.jobs))
	err := e.each(ctx, func(o *oracle, c, lo, hi int) {
		o.at(pi, version)
		fluids[c], gains[c] = new(big.Rat), new(big.Rat)
		for i := lo; i < hi && ctx.Err() == nil; i++ {
			x := exactJob{o: o, j: &e.pr.jobs[i], mj: &e.pr.model.Jobs[i], rows: e.pr.rows, nanos: nanos, grid: grid, path: e.pr.pathUs[i]}
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
	total, gain := new(big.Rat), new(big.Rat)
	for c := range fluids {
		total.Add(total, fluids[c])
		gain.Add(gain, gains[c])
	}
	fixed := new(big.Int)
	for i := range e.pr.model.Jobs {
		j := &e.pr.model.Jobs[i]
		fixed.Add(fixed, product(j.WeightMicro*1, nano, j.ReleaseUs))
	}
	e.capacity = e.capacity[:0]
	for _, cost := range e.pr.capacityCost(grid, nanos) {
		fixed.Add(fixed, cost)
		c, _ := new(big.Float).SetInt(cost).Float64()
		e.capacity = append(e.capacity, c)
	}
	total.Sub(total, new(big.Rat).SetInt(fixed))
	if e.stated = e.bestStep(gain, total); e.stated > 0 {
		total.Add(total, gain)
		for i, x := range e.gain {
			e.phi[i] += x
		}
	}
	return total, nil
}

// floor rounds down to 2^-40 where sums of exact fractions would get long.
func (e *evaluator) floor(x *big.Rat) *big.Rat {
	if len(e.pr.jobs) <= exactTerms {
		return new(big.Rat).Set(x)
	}
	n := new(big.Int).Lsh(x.Num(), 40)
	return new(big.Rat).SetFrac(n.Div(n, x.Denom()), new(big.Int).Lsh(big.NewInt(1), 40))
}

// capacityIn is ∫ M over [from, to) in GPU-microseconds, at most 2^20 · 2^53.
func capacityIn(steps []hare.Step, from, to int64) *big.Int {
	sum := new(big.Int)
	for i, s := range steps {
		end := to
		if i+1 < len(steps) {
			end = min(end, steps[i+1].FromUs)
		}
		if l := end - max(s.FromUs, from); l > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(s.Count), big.NewInt(l)))
		}
	}
	return sum
}

func product[T int64 | *big.Int](a, b int64, c T) *big.Int {
	x := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	switch c := any(c).(type) {
	case int64:
		return x.Mul(x, big.NewInt(c))
	case *big.Int:
		return x.Mul(x, c)
	}
	return x
}

// exactJob evaluates φ of one job.
type exactJob struct {
	o     *oracle
	j     *job
	mj    *hare.ModelJob
	rows  []row
	nanos [][]int64 // by row
	grid  []int64
	path  int64
}

// candidate is a last piece, or a rigid start, worth exact evaluation.
type candidate struct {
	start float64
	crit  segment // the last segment of the filling
	final bool    // crit lies in the last piece
}

func (x *exactJob) least() *big.Rat {
	var ans answer
	if x.j.sync == hare.Rigid {
		return x.leastRigid(&ans)
	}
	x.o.solve(x.j, &ans, false)
	cs := x.o.candidates(x.j, ans.phi+near*(ans.phi+ans.scale)+1)
	var best *big.Rat
	for i := range cs {
		if v := x.piece(&cs[i]); best == nil || v.Cmp(best) < 0 {
			best = v
		}
	}
	// A multiplier that cancellation has spoilt may prove less than the path.
	path := new(big.Rat).SetInt(product(x.mj.WeightMicro, nano, x.path))
	if best.Cmp(path) < 0 {
		return path
	}
	return best
}

// modeUs returns the exact times of mode i of the job, whose modes are sorted
// by rate while the model's are by type.
func (x *exactJob) modeUs(i int) (computeUs, durationUs int64) {
	kind := x.j.modes[i].kind
	for _, md := range x.mj.Modes {
		if md.Type == kind {
			return md.ComputeUs, md.DurationUs()
		}
	}
	panic("relax: mode of no type")
}

// perRound is n = d·c of mode i: what a round costs there, in 1e-15, when a
// GPU-second costs price.
func (x *exactJob) perRound(i int, price int64, last bool) *big.Int {
	p, d := x.modeUs(i)
	if x.j.sync == hare.Gang {
		p = d
	}
	n := product(x.units(i), price, p)
	if last {
		n.Add(n, product(x.mj.WeightMicro, nano, d))
	}
	return n
}

func (x *exactJob) price(i int, cell int32) int64 {
	if cell < 0 {
		return 0
	}
	return x.nanos[x.j.modes[i].row][cell]
}

// units is how many times a job pays the price of mode i's row.
func (x *exactJob) units(i int) int64 {
	return x.mj.Tasks / x.rows[x.j.modes[i].row].tasks
}

// piece is max over μ of the dual for the last piece that starts at c.start,
// taken at the slope where the float filling ended: valid for any μ.
func (x *exactJob) piece(c *candidate) *big.Rat {
	n := len(x.j.modes)
	s := &c.crit
	num := x.perRound(int(s.to), x.price(int(s.to), s.tcell), c.final)
	den := int64(1)
	if s.from >= 0 {
		_, da := x.modeUs(int(s.from))
		_, db := x.modeUs(int(s.to))
		na := x.perRound(int(s.from), x.price(int(s.from), s.fcell), c.final)
		num.Mul(num, big.NewInt(da))
		num.Sub(num, na.Mul(na, big.NewInt(db)))
		den = da - db
	}
	bigDen := big.NewInt(den)
	// Σ over pieces and modes of len·(μ − n)/d, a sum a mode.
	sums := make([]*big.Int, n)
	for i := range sums {
		sums[i] = new(big.Int)
	}
	add := func(t, end float64, pos []int, last bool) {
		bestMode := -1
		var best, bestD *big.Int
		for i := range n {
			_, d := x.modeUs(i)
			v := x.perRound(i, x.price(i, x.o.tails[i][pos[i]].cell), last)
			v.Mul(v, bigDen)
			v.Sub(num, v)
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
	x.o.pieces(x.j, func(t, end float64, pos []int) bool {
		last := t >= c.start
		if last && math.IsInf(end, 1) {
			infinite = true
			// An endless piece allows no μ over its least cost a round.
			for i := range n {
				lim := x.perRound(i, 0, true)
				if lim.Mul(lim, bigDen).Cmp(num) < 0 {
					num.Set(lim)
				}
			}
			return false
		}
		add(t, end, pos, last)
		return !last
	})
	if infinite {
		// μ may have been lowered: sum again without the endless piece.
		for i := range sums {
			sums[i].SetInt64(0)
		}
		x.o.pieces(x.j, func(t, end float64, pos []int) bool {
			if t >= c.start {
				return false
			}
			add(t, end, pos, false)
			return true
		})
	}
	total := new(big.Rat).SetInt(product(x.mj.WeightMicro, nano, int64(c.start)))
	total.Add(total, new(big.Rat).SetFrac(new(big.Int).Mul(num, big.NewInt(x.mj.Rounds)), bigDen))
	for i, s := range sums {
		_, d := x.modeUs(i)
		total.Sub(total, new(big.Rat).SetFrac(s, new(big.Int).Mul(bigDen, big.NewInt(d))))
	}
	return total
}

// pieces calls f for each piece [t, end) of the job's time, with the place of
// each mode in its tail, until f returns false. o.trail(j) must have run.
func (o *oracle) pieces(j *job, f func(t, end float64, pos []int) bool) {
	pos := make([]int, len(j.modes))
	for t := j.a; ; {
		end := o.next(j, t, pos)
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
		if t >= j.path {
			if j.w*t > limit {
				return false
			}
			o.last = o.hull(o.last[:0], j, pos, t, end-t, j.w, o.base.useful(j.rounds))
			if cost, crit, final := o.fill(j, t); crit != nil && cost <= limit+near*(j.w*t+o.base.cost) {
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

func (x *exactJob) leastRigid(ans *answer) *big.Rat {
	x.o.solve(x.j, ans, false)
	var best *big.Int
	for i := range x.j.modes {
		// Costs are differences of integrals from 0 on.
		md := &x.j.modes[i]
		all := x.o.pi.cum[md.row]
		limit := ans.phi + near*(ans.phi+md.held*all[len(all)-1]) + 1
		_, d := x.modeUs(i)
		length := x.mj.Rounds * d
		row := x.nanos[x.j.modes[i].row]
		x.o.starts(x.j, i, limit, func(start, cost float64) bool {
			if cost > limit {
				return true
			}
			s := int64(start)
			v := product(x.mj.WeightMicro, nano, s+length)
			for g := cellOf(x.o.pi.grid, start); g < len(row) && x.grid[g] < s+length; g++ {
				if l := min(x.grid[g+1], s+length) - max(x.grid[g], s); l > 0 {
					v.Add(v, product(x.units(i), row[g], l))
				}
			}
			if best == nil || v.Cmp(best) < 0 {
				best = v
			}
			return true
		})
	}
	return new(big.Rat).SetInt(best)
}
