package place

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// A round that takes the GPUs on which it ends first may take fast GPUs that other jobs need more. The prices of the
// bound say what GPU-time is worth, and a table of each job says what a later end costs it with the best use of these
// prices: a dynamic program over the rounds left and time. A round then goes where the sum of both is least.

// Cost tables have at most tableLevels levels of rounds left and tableCells cells of
// time; all tables together have at most maxTableEntries entries of four bytes.
const (
	tableLevels     = 32
	tableCells      = 192
	maxTableEntries = 16_000_000
	// cellIndexSize is the size of the table that finds the grid cell of a time.
	cellIndexSize = 4096
	// tableParts is the number of shares of the jobs that are tabulated in parallel.
	tableParts = 8
)

// PriceGuide holds the prices of GPU-time and the cost-to-go of each job, so that a
// round may take cheaper GPUs if this costs the job less than it saves (price-guided
// decoding).
type PriceGuide struct {
	m          *model.Model
	unit       int64 // the unit of time of m, in µs
	cells      int   // the number of cells of time in a table
	gridUs     []int64
	shift      uint        // shifts a time in µs to an index in cellIndex
	cellIndex  []int32     // the grid cell at which a search may begin
	cumulative [][]float64 // by type: the price of one GPU from 0 to each grid point
	rate       [][]float64 // by type and cell, in weight-seconds per GPU-µs
	tables     []costTable
}

// costTable holds, for one job, the least weight × end + price of the remaining rounds,
// in weight-seconds and without regard to capacity: row l for l·rounds rounds left,
// column x for time x·step, in the model's unit of time.
type costTable struct {
	weight  float64 // per unit of time
	rounds  int64   // the rounds of a level
	step    int64
	perStep float64 // 1/step
	rows    [][]float32
}

// NewPriceGuide prepares the tables of the relaxed jobs that are not big, up to horizon,
// where times of m are in units of so many µs. It returns nil without prices. It takes
// O(jobs · levels · cells · types).
func NewPriceGuide(m *model.Model, unit int64, rel *hare.Relaxation, big []bool, horizon int64,
	workers int) *PriceGuide {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(m.Types) {
		return nil
	}
	pg := &PriceGuide{m: m, unit: unit, gridUs: rel.GridUs, tables: make([]costTable, len(m.Jobs))}
	pg.cells = max(16, min(tableCells, maxTableEntries/tableLevels/max(1, len(m.Jobs))))
	for _, row := range rel.Prices {
		cum, rate := make([]float64, len(pg.gridUs)), make([]float64, len(pg.gridUs))
		for x := range len(pg.gridUs) - 1 {
			if x < len(row) {
				rate[x] = row[x] / 1e6
			}
			cum[x+1] = cum[x] + rate[x]*float64(pg.gridUs[x+1]-pg.gridUs[x])
		}
		pg.cumulative, pg.rate = append(pg.cumulative, cum), append(pg.rate, rate)
	}
	for pg.gridUs[len(pg.gridUs)-1]>>pg.shift >= cellIndexSize {
		pg.shift++
	}
	for x := range pg.gridUs {
		for int64(len(pg.cellIndex)) <= pg.gridUs[x]>>pg.shift {
			pg.cellIndex = append(pg.cellIndex, int32(max(0, x-1)))
		}
	}
	RunParallel(workers, tableParts, func(x int) {
		for i := x; i < len(m.Jobs); i += tableParts {
			if m.Jobs[i].Sync == hare.Relaxed && !big[i] {
				pg.tabulate(i, horizon)
			}
		}
	})
	return pg
}

// cumulativePrice returns the price of one GPU of type k from 0 to t.
func (pg *PriceGuide) cumulativePrice(k int, t int64) float64 {
	t *= pg.unit
	x := len(pg.gridUs) - 1
	if t < pg.gridUs[x] {
		for x = int(pg.cellIndex[t>>pg.shift]); pg.gridUs[x+1] <= t; x++ {
		}
	}
	return pg.cumulative[k][x] + pg.rate[k][x]*float64(max(0, t-pg.gridUs[x]))
}

// price returns the price of one GPU of type k for hold from t on.
func (pg *PriceGuide) price(k int, t, hold int64) float64 {
	return pg.cumulativePrice(k, t+hold) - pg.cumulativePrice(k, t)
}

func (pg *PriceGuide) tabulate(i int, horizon int64) {
	j := &pg.m.Jobs[i]
	t := &pg.tables[i]
	t.weight = float64(j.WeightMicro) / 1e12 * float64(pg.unit)
	t.rounds = (j.Rounds + tableLevels - 1) / tableLevels
	levels := int((j.Rounds+t.rounds-1)/t.rounds) + 1
	t.step = max(1, (horizon+int64(pg.cells)-1)/int64(pg.cells))
	t.perStep = 1 / float64(t.step)
	fast := room.Never
	for _, md := range j.Modes {
		fast = min(fast, md.DurationUs())
	}
	n := pg.cells + 1
	cells := make([]float32, levels*n)
	// price[k*n+x] is the price of one level of rounds on mode k from column x on.
	price := make([]float64, len(j.Modes)*n)
	for k := range j.Modes {
		md := &j.Modes[k]
		span := t.rounds * md.DurationUs()
		share := float64(t.rounds*md.ComputeUs) * float64(j.Tasks) / float64(span)
		for x := range n {
			from := int64(x) * t.step
			price[k*n+x] = share * (pg.cumulativePrice(int(md.Type), from+span) - pg.cumulativePrice(int(md.Type),
				from))
		}
	}
	for l := range levels {
		t.rows = append(t.rows, cells[l*n:(l+1)*n])
		row := t.rows[l]
		for x := n - 1; x >= 0; x-- {
			from := int64(x) * t.step
			if l == 0 {
				row[x] = float32(t.weight * float64(from))
				continue
			}
			best := t.weight * (float64(from) + float64(int64(l)*t.rounds*fast))
			if x+1 < n {
				best = float64(row[x+1])
			}
			for k := range j.Modes {
				c := price[k*n+x] + t.at(l-1, from+t.rounds*j.Modes[k].DurationUs())
				best = min(best, c)
			}
			row[x] = float32(best)
		}
	}
}

// at returns the cost of level l at time u.
func (ct *costTable) at(l int, u int64) float64 {
	row := ct.rows[l]
	at := float64(u) * ct.perStep
	x := int(at)
	if x >= len(row)-1 {
		return float64(row[len(row)-1]) + ct.weight*float64(u-int64(len(row)-1)*ct.step)
	}
	return float64(row[x]) + (at-float64(x))*float64(row[x+1]-row[x])
}

// costToGo returns the cost for job i to do left more rounds from time u on.
func (pg *PriceGuide) costToGo(i int, left, u int64) float64 {
	t := &pg.tables[i]
	l := int(left / t.rounds)
	a := t.at(l, u)
	if f := left % t.rounds; f > 0 {
		a += float64(f) / float64(t.rounds) * (t.at(l+1, u) - a)
	}
	return a
}

// reservation holds GPUs tentatively for some tasks of a round.
type reservation struct {
	room.Block
	end       int64   // when the tasks have synchronised
	taskPrice float64 // the price of one task
}

// PlacePriceGuidedRound places the K tasks of a round of job i from ready on. The place
// has the least sum of lambda times the price of its GPUs and the cost-to-go of the
// rounds behind it, among these sets: for each time, the cheapest K tasks of the
// reservations that end by then.
func (res *Residual) PlacePriceGuidedRound(g *PriceGuide, lambda float64, i int, round, ready int64,
	out *[]room.Block) (end int64, ok bool) {
	j := &res.m.Jobs[i]
	need := int32(min(j.Tasks, 1<<30))
	reservations := res.reservations[:0]
	defer func() { res.reservations = reservations[:0] }()
	left := j.Rounds - 1 - round
	cands := res.candidates(j, ready)
	take := func(c *candidate, got int32) reservation {
		o := reservation{end: c.start + c.dur, taskPrice: g.price(int(j.Modes[c.mode].Type), c.start, c.hold)}
		o.Block = room.Block{Class: c.class, Width: min(c.width, got), Tasks: 1, Round: round, Rounds: 1,
			StartUs: c.start, HoldUs: c.hold}
		res.Reserve(&o.Block)
		c.width -= o.Width
		reservations = append(reservations, o)
		return o
	}
	// The reservations with the earliest end come first, as in placeRound. Then each mode
	// alone adds reservations while they can pay.
	got := need
	for got > 0 {
		x := res.earliestCandidate(cands)
		if x < 0 {
			for x := range reservations {
				res.Release(&reservations[x].Block)
			}
			return 0, false
		}
		got -= take(&cands[x], got).Width
	}
	soonest := len(reservations)
	base := g.costToGo(i, left, reservations[soonest-1].end)
	for len(cands) > 0 {
		// The candidates of a mode are neighbours.
		n := 1
		for n < len(cands) && cands[n].mode == cands[0].mode {
			n++
		}
		mode := cands[:n]
		cands = cands[n:]
		for got := need; got > 0; {
			x := res.earliestCandidate(mode)
			if x < 0 {
				break
			}
			c := &mode[x]
			each := g.price(int(j.Modes[c.mode].Type), c.start, c.hold)
			// spared is what the task would spare if it replaced all dearer tasks.
			spared := 0.0
			for x := range reservations[:soonest] {
				spared += max(0, reservations[x].taskPrice-each) * float64(reservations[x].Width)
			}
			if lambda*spared <= g.costToGo(i, left, c.start+c.dur)-base {
				break
			}
			got -= take(c, got).Width
		}
	}
	slices.SortStableFunc(reservations, func(x, y reservation) int { return cmp.Compare(x.end, y.end) })
	// cheap holds the reservations that end by the current time, sorted by price.
	cheap := res.cheapest[:0]
	bestCost, bestUpTo := 0.0, -1
	total := int32(0)
	for x := range reservations {
		o := &reservations[x]
		cheap = byPrice(reservations, cheap, x)
		if total += o.Width; total < need || x+1 < len(reservations) && reservations[x+1].end == o.end {
			continue
		}
		c := fill(reservations, cheap, need, nil)*lambda + g.costToGo(i, left, o.end)
		if bestUpTo < 0 || c < bestCost {
			bestCost, bestUpTo = c, x
		}
	}
	// The best set consists of reservations up to bestUpTo.
	cheap = slices.DeleteFunc(cheap, func(x int) bool { return x > bestUpTo })
	fill(reservations, cheap, need, func(o *reservation, n int32) {
		x := o.Block
		x.Width = n
		*out = append(*out, x)
		o.Width -= n
		end = max(end, o.end)
	})
	// The rest of the reservations is released.
	for x := range reservations {
		if reservations[x].Width > 0 {
			res.Release(&reservations[x].Block)
		}
	}
	res.cheapest = cheap[:0]
	return end, true
}

// byPrice inserts reservation x into cheap, before those of the same price.
func byPrice(reservations []reservation, cheap []int, x int) []int {
	at, _ := slices.BinarySearchFunc(cheap, reservations[x].taskPrice,
		func(c int, e float64) int { return cmp.Compare(reservations[c].taskPrice, e) })
	return slices.Insert(cheap, at, x)
}

// fill gives need tasks to the reservations in the order of cheap, and returns their
// price.
func fill(reservations []reservation, cheap []int, need int32, each func(o *reservation, n int32)) (price float64) {
	for _, x := range cheap {
		o := &reservations[x]
		n := min(need, o.Width)
		price += o.taskPrice * float64(n)
		if each != nil {
			each(o, n)
		}
		if need -= n; need == 0 {
			break
		}
	}
	return price
}
