package greedy

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// Sizes of the tables of values: steps of rounds left and of time, at most, and
// entries of all jobs together, of four bytes.
const (
	guideLevels  = 32
	guideCells   = 192
	guideEntries = 16_000_000
	// nearCells is the size of the table that finds a time's price.
	nearCells = 4096
	// parts is how many shares of the jobs are tabulated side by side.
	parts = 8
)

// guide knows the prices of GPU-time and what it costs each job to go on from
// a time, so that a round may take cheaper GPUs where it is not the worse for
// it (price-guided decoding).
type guide struct {
	m      *hare.Model
	unit   int64 // of time in m, in µs
	cells  int   // of time
	gridUs []int64
	shift  uint        // of times in µs, to the places in
	near   []int32     // the grid's cell at which a search may begin
	cum    [][]float64 // by type: price of one GPU from 0 to each grid point
	rate   [][]float64 // by type and cell, weight-seconds per GPU-µs
	jobs   []values
}

// values holds, for one job, the least weight × end + price of what is left,
// in weight-seconds, without regard to capacity: row l at l·rounds rounds left,
// column x at time x·step, in the model's unit of time.
type values struct {
	weight  float64 // per unit of time
	rounds  int64   // of a level
	step    int64
	perStep float64 // 1/step
	v       [][]float32
}

// newGuide prepares the tables of the relaxed jobs that are not big, up to
// horizon, where times of m are in units of so many µs. It is nil without
// prices. O(jobs · levels · cells · types).
func newGuide(m *hare.Model, unit int64, rel *hare.Relaxation, big []bool, horizon int64, workers int) *guide {
	if rel == nil || len(rel.GridUs) < 2 || len(rel.Prices) != len(m.Types) {
		return nil
	}
	g := &guide{m: m, unit: unit, gridUs: rel.GridUs, jobs: make([]values, len(m.Jobs))}
	g.cells = max(16, min(guideCells, guideEntries/guideLevels/max(1, len(m.Jobs))))
	for _, row := range rel.Prices {
		cum, rate := make([]float64, len(g.gridUs)), make([]float64, len(g.gridUs))
		for x := range len(g.gridUs) - 1 {
			if x < len(row) {
				rate[x] = row[x] / 1e6
			}
			cum[x+1] = cum[x] + rate[x]*float64(g.gridUs[x+1]-g.gridUs[x])
		}
		g.cum, g.rate = append(g.cum, cum), append(g.rate, rate)
	}
	for g.gridUs[len(g.gridUs)-1]>>g.shift >= nearCells {
		g.shift++
	}
	for x := range g.gridUs {
		for int64(len(g.near)) <= g.gridUs[x]>>g.shift {
			g.near = append(g.near, int32(max(0, x-1)))
		}
	}
	sideBySide(workers, parts, func(x int) {
		for i := x; i < len(m.Jobs); i += parts {
			if m.Jobs[i].Sync == hare.Relaxed && !big[i] {
				g.tabulate(i, horizon)
			}
		}
	})
	return g
}

// paid is the price of one GPU of type k from 0 to t.
func (g *guide) paid(k int, t int64) float64 {
	t *= g.unit
	x := len(g.gridUs) - 1
	if t < g.gridUs[x] {
		for x = int(g.near[t>>g.shift]); g.gridUs[x+1] <= t; x++ {
		}
	}
	return g.cum[k][x] + g.rate[k][x]*float64(max(0, t-g.gridUs[x]))
}

// price is that of one GPU of type k for hold from t on.
func (g *guide) price(k int, t, hold int64) float64 { return g.paid(k, t+hold) - g.paid(k, t) }

func (g *guide) tabulate(i int, horizon int64) {
	j := &g.m.Jobs[i]
	t := &g.jobs[i]
	t.weight = float64(j.WeightMicro) / 1e12 * float64(g.unit)
	t.rounds = (j.Rounds + guideLevels - 1) / guideLevels
	levels := int((j.Rounds+t.rounds-1)/t.rounds) + 1
	t.step = max(1, (horizon+int64(g.cells)-1)/int64(g.cells))
	t.perStep = 1 / float64(t.step)
	fast := never
	for _, md := range j.Modes {
		fast = min(fast, md.DurationUs())
	}
	n := g.cells + 1
	cells := make([]float32, levels*n)
	// What a level costs on each mode from each time on.
	price := make([]float64, len(j.Modes)*n)
	for k := range j.Modes {
		md := &j.Modes[k]
		span := t.rounds * md.DurationUs()
		share := float64(t.rounds*md.ComputeUs) * float64(j.Tasks) / float64(span)
		for x := range n {
			from := int64(x) * t.step
			price[k*n+x] = share * (g.paid(int(md.Type), from+span) - g.paid(int(md.Type), from))
		}
	}
	for l := range levels {
		t.v = append(t.v, cells[l*n:(l+1)*n])
		row := t.v[l]
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

// at is the value of level l at time u.
func (t *values) at(l int, u int64) float64 {
	row := t.v[l]
	at := float64(u) * t.perStep
	x := int(at)
	if x >= len(row)-1 {
		return float64(row[len(row)-1]) + t.weight*float64(u-int64(len(row)-1)*t.step)
	}
	return float64(row[x]) + (at-float64(x))*float64(row[x+1]-row[x])
}

// value is what it costs job i to do left more rounds from time u on.
func (g *guide) value(i int, left, u int64) float64 {
	t := &g.jobs[i]
	l := int(left / t.rounds)
	a := t.at(l, u)
	if f := left % t.rounds; f > 0 {
		a += float64(f) / float64(t.rounds) * (t.at(l+1, u) - a)
	}
	return a
}

// offer is a place for some tasks of a round.
type offer struct {
	Block
	end  int64   // synchronised
	each float64 // price of a task
}

// guidedRound places the K tasks of a round of job i from ready on where
// lambda times the price of its GPUs plus the value of the rounds behind it is
// least: among the sets of the offers that end first, the cheapest K tasks of
// each.
func (b *board) guidedRound(g *guide, lambda float64, i int, round, ready int64, out *[]Block) (end int64, ok bool) {
	j := &b.m.Jobs[i]
	need := int32(min(j.Tasks, 1<<30))
	offers := b.offers[:0]
	defer func() { b.offers = offers[:0] }()
	left := j.Rounds - 1 - round
	cands := b.candidates(j, ready)
	take := func(c *cand, got int32) offer {
		o := offer{end: c.at + c.dur, each: g.price(int(j.Modes[c.mode].Type), c.at, c.hold)}
		o.Block = Block{Class: c.class, Width: min(c.width, got), Tasks: 1, Round: round, Rounds: 1, StartUs: c.at, HoldUs: c.hold}
		b.take(&o.Block)
		c.width -= o.Width
		offers = append(offers, o)
		return o
	}
	// The earliest end comes first, as in relaxedRound; then each mode alone
	// goes on while it can pay.
	got := need
	for got > 0 {
		x := b.first(cands)
		if x < 0 {
			for x := range offers {
				b.give(&offers[x].Block)
			}
			return 0, false
		}
		got -= take(&cands[x], got).Width
	}
	soonest := len(offers)
	base := g.value(i, left, offers[soonest-1].end)
	for len(cands) > 0 {
		// Classes of a mode stand together.
		n := 1
		for n < len(cands) && cands[n].mode == cands[0].mode {
			n++
		}
		mode := cands[:n]
		cands = cands[n:]
		for got := need; got > 0; {
			x := b.first(mode)
			if x < 0 {
				break
			}
			c := &mode[x]
			each := g.price(int(j.Modes[c.mode].Type), c.at, c.hold)
			// What it would spare if it took the place of all that are dearer.
			spared := 0.0
			for x := range offers[:soonest] {
				spared += max(0, offers[x].each-each) * float64(offers[x].Width)
			}
			if lambda*spared <= g.value(i, left, c.at+c.dur)-base {
				break
			}
			got -= take(c, got).Width
		}
	}
	slices.SortStableFunc(offers, func(x, y offer) int { return cmp.Compare(x.end, y.end) })
	// cheap holds the offers that end by then, by price.
	cheap := b.cheap[:0]
	bestCost, bestUpTo := 0.0, -1
	total := int32(0)
	for x := range offers {
		o := &offers[x]
		cheap = byPrice(offers, cheap, x)
		if total += o.Width; total < need || x+1 < len(offers) && offers[x+1].end == o.end {
			continue
		}
		c := fill(offers, cheap, need, nil)*lambda + g.value(i, left, o.end)
		if bestUpTo < 0 || c < bestCost {
			bestCost, bestUpTo = c, x
		}
	}
	// The best set is that of the offers up to bestUpTo.
	cheap = slices.DeleteFunc(cheap, func(x int) bool { return x > bestUpTo })
	fill(offers, cheap, need, func(o *offer, n int32) {
		x := o.Block
		x.Width = n
		*out = append(*out, x)
		o.Width -= n
		end = max(end, o.end)
	})
	// What is left of the offers goes back.
	for x := range offers {
		if offers[x].Width > 0 {
			b.give(&offers[x].Block)
		}
	}
	b.cheap = cheap[:0]
	return end, true
}

// byPrice inserts offer x into cheap, before those of the same price.
func byPrice(offers []offer, cheap []int, x int) []int {
	at, _ := slices.BinarySearchFunc(cheap, offers[x].each, func(c int, e float64) int { return cmp.Compare(offers[c].each, e) })
	return slices.Insert(cheap, at, x)
}

// fill gives need tasks to the offers in the order of cheap, and returns their
// price.
func fill(offers []offer, cheap []int, need int32, each func(o *offer, n int32)) (price float64) {
	for _, x := range cheap {
		o := &offers[x]
		n := min(need, o.Width)
		price += o.each * float64(n)
		if each != nil {
			each(o, n)
		}
		if need -= n; need == 0 {
			break
		}
	}
	return price
}
