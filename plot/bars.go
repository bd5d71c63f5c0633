package plot

// bar is a coloured piece of a row, in CSS pixels from the plot's left edge.
type bar struct {
	x0, x1 float64
	job    int32
	shape  int32
	tone   tone
	// rows is the number of rows of the block that begins with this bar, or inBlock for the
	// other bars of a block; 0 means 1.
	rows int
}

// tone says what a bar shows.
type tone uint8

const (
	workTone    tone = iota
	syncTone         // synchronisation, in a light tone of the colour
	setupTone        // the setup of the GPU for the job, of less height
	runningTone      // work that runs at time 0, striped
)

// setupShare is the height of a setup as a share of the height of the bar that follows.
const setupShare = 0.36

// inBlock marks a bar that is drawn with the block of a row above it.
const inBlock = -1

const (
	visiblePeriod = 9.0    // the width of a round, in pixels, below which a run of rounds is one bar
	leastSetup    = 0.8    // the width of a setup, in pixels, from which it is drawn
	hairline      = 4.0    // the width of a bar, in pixels, from which a gap separates it from the next
	maxBars       = 60_000 // in an SVG picture
)

// barsOf draws spans at scale pixels per microsecond. Pieces narrower than grain pixels
// are merged into cells of that width, which take the colour of the job that fills most
// of them. A row therefore has at most width / grain merged bars. It takes O(spans +
// pieces drawn).
func barsOf(spans []span, scale, grain float64) []bar {
	g := barMerger{minWidth: grain, cell: -1}
	for i := range spans {
		sp := &spans[i]
		if x0, x1 := float64(sp.startUs-sp.setupUs)*scale, float64(sp.startUs)*scale; x1-x0 >= max(grain, leastSetup) {
			g.flush()
			g.appendBar(bar{x0: x0, x1: x1, job: sp.job, shape: sp.shape, tone: setupTone})
		}
		if sp.running || sp.planned {
			g.flush()
			b := bar{x0: float64(sp.startUs) * scale, x1: float64(sp.lastUs) * scale, job: sp.job, shape: sp.shape,
				tone: runningTone}
			if sp.planned {
				b.tone = syncTone
				b.x1 = max(b.x0, b.x1-0.6)
			}
			g.appendBar(b)
			continue
		}
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

// barMerger collects bars from left to right and merges narrow ones.
type barMerger struct {
	minWidth float64
	out      []bar
	cell     int // −1 means none
	fill     []share
}

// share is the number of pixels of a cell that a job fills.
type share struct {
	job    int32
	shape  int32
	pixels float64
}

// piece adds the interval [x0, x1). whole says that it is one round, whose
// synchronisation can be shown.
func (bm *barMerger) piece(sp *span, x0, x1 float64, whole bool, scale float64) {
	if x1-x0 < bm.minWidth {
		cell := int(x0 / bm.minWidth)
		if cell != bm.cell {
			bm.flush()
			bm.cell = cell
		}
		for i := range bm.fill {
			if bm.fill[i].job == sp.job {
				bm.fill[i].pixels += x1 - x0
				return
			}
		}
		bm.fill = append(bm.fill, share{sp.job, sp.shape, x1 - x0})
		return
	}
	bm.flush()
	wide := x1-x0 >= hairline
	if wide {
		x1 -= 0.6 // leaves a hairline between rounds
	}
	if sync := float64(sp.syncUs) * scale; whole && wide && sync >= 1.2 && sp.syncUs < sp.holdUs && sp.gang {
		bm.appendBar(bar{x0: x0, x1: x1 - sync, job: sp.job, shape: sp.shape})
		bm.appendBar(bar{x0: x1 - sync, x1: x1, job: sp.job, shape: sp.shape, tone: syncTone})
		return
	}
	bm.appendBar(bar{x0: x0, x1: x1, job: sp.job, shape: sp.shape})
}

// flush turns the open cell into a bar.
func (bm *barMerger) flush() {
	if bm.cell < 0 {
		return
	}
	best, sum := share{}, 0.0
	for _, s := range bm.fill {
		sum += s.pixels
		if s.pixels > best.pixels {
			best = s
		}
	}
	x0 := float64(bm.cell) * bm.minWidth
	width := bm.minWidth
	if sum < bm.minWidth/3 {
		width = max(sum, bm.minWidth/4) // a cell that is mostly idle stays thin
	}
	if len(bm.fill) > 0 && best.pixels == 0 {
		best = bm.fill[0]
	}
	bm.appendBar(bar{x0: x0, x1: x0 + width, job: best.job, shape: best.shape})
	bm.cell, bm.fill = -1, bm.fill[:0]
}

// appendBar appends b. A bar is joined to a touching bar of the same job if neither
// shows a single round.
func (bm *barMerger) appendBar(b bar) {
	if n := len(bm.out); n > 0 {
		last := &bm.out[n-1]
		if last.job == b.job && last.tone == b.tone && last.shape == b.shape && b.x0-last.x1 < 0.05 && b.x1 > last.x1 {
			last.x1 = b.x1
			return
		}
		if b.x0 < last.x1 && b.x1 > last.x1 { // the cell is next to a bar that ends in it
			b.x0 = last.x1
		}
	}
	bm.out = append(bm.out, b)
}
