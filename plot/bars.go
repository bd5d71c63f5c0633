package plot

// bar is a coloured piece of a row, in CSS pixels from the plot's left.
type bar struct {
	x0, x1 float64
	job    int32
	light  bool // synchronising
}

const (
	visiblePeriod = 9.0    // pixels of a round below which a run of rounds is one bar
	hairline      = 4.0    // pixels of a bar from which a gap sets it apart from the next
	maxBars       = 60_000 // of an SVG picture
)

// barsOf draws spans at scale pixels a microsecond. Pieces narrower than grain
// pixels are gathered in cells of that width, which take the colour of the job
// that fills most of them; so a row has at most its width / grain of these.
// O(spans + pieces drawn).
func barsOf(spans []span, scale, grain float64) []bar {
	g := gatherer{grain: grain, cell: -1}
	for i := range spans {
		sp := &spans[i]
		period := float64(sp.periodUs) * scale
		if sp.rounds > 1 && period < visiblePeriod || sp.rounds == 1 {
			g.piece(sp, float64(sp.startUs)*scale, float64(sp.lastUs)*scale, sp.rounds == 1, scale)
			continue
		}
		hold := float64(sp.holdUs) * scale
		for r := range sp.rounds {
			x := (float64(sp.startUs) + float64(r)*float64(sp.periodUs)) * scale
			g.piece(sp, x, x+hold, true, scale)
		}
	}
	g.flush()
	return g.out
}

// gatherer collects bars from left to right.
type gatherer struct {
	grain float64
	out   []bar
	cell  int // -1: none
	fill  []share
}

// share is how many pixels of a cell a job fills.
type share struct {
	job    int32
	pixels float64
}

// piece adds [x0, x1); whole says that it is one round, whose synchronisation
// can be shown.
func (g *gatherer) piece(sp *span, x0, x1 float64, whole bool, scale float64) {
	if x1-x0 < g.grain {
		cell := int(x0 / g.grain)
		if cell != g.cell {
			g.flush()
			g.cell = cell
		}
		for i := range g.fill {
			if g.fill[i].job == sp.job {
				g.fill[i].pixels += x1 - x0
				return
			}
		}
		g.fill = append(g.fill, share{sp.job, x1 - x0})
		return
	}
	g.flush()
	wide := x1-x0 >= hairline
	if wide {
		x1 -= 0.6 // a hairline between rounds
	}
	if sync := float64(sp.syncUs) * scale; whole && wide && sync >= 1.2 && sp.syncUs < sp.holdUs && sp.gang {
		g.emit(bar{x0, x1 - sync, sp.job, false})
		g.emit(bar{x1 - sync, x1, sp.job, true})
		return
	}
	g.emit(bar{x0, x1, sp.job, false})
}

// flush turns the open cell into a bar.
func (g *gatherer) flush() {
	if g.cell < 0 {
		return
	}
	best, sum := share{}, 0.0
	for _, s := range g.fill {
		sum += s.pixels
		if s.pixels > best.pixels {
			best = s
		}
	}
	x0 := float64(g.cell) * g.grain
	width := g.grain
	if sum < g.grain/3 {
		width = max(sum, g.grain/4) // mostly idle: stay thin
	}
	job := best.job
	if len(g.fill) > 0 && best.pixels == 0 {
		job = g.fill[0].job
	}
	g.emit(bar{x0, x0 + width, job, false})
	g.cell, g.fill = -1, g.fill[:0]
}

// emit appends b, joined to a bar of the same job that it touches where
// neither shows a round.
func (g *gatherer) emit(b bar) {
	if n := len(g.out); n > 0 {
		last := &g.out[n-1]
		if last.job == b.job && last.light == b.light && b.x0-last.x1 < 0.05 && b.x1 > last.x1 {
			last.x1 = b.x1
			return
		}
		if b.x0 < last.x1 && b.x1 > last.x1 { // a cell next to a bar that ends in it
			b.x0 = last.x1
		}
	}
	g.out = append(g.out, b)
}
