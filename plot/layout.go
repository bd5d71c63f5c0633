package plot

import (
	"slices"

	"github.com/hare-sched/hare/internal/words"
)

// layout places everything, with about mostBars bars at most. It takes O(spans + GPUs).
func (s *scene) layout(opt Options, mostBars int) *chart {
	c := &chart{ruler: &textMeasurer{}, w: float64(opt.Width)}
	c.figures, c.size = s.headlines()
	stride := (len(s.lanes) + maxRows - 1) / maxRows
	if stride > 1 {
		c.size += s.sampled(stride)
	}
	c.names = s.jobWords
	nodes, shown := s.sample(stride)
	height := min(22, max(2, 720/float64(len(shown))))
	if height > 4 {
		height = float64(int(height))
	}
	left := margin
	for _, t := range s.types {
		left = max(left, margin+c.ruler.width(typeFace, t))
	}
	left += 14 // viewers of SVG may use a wider font
	levels := 0
	if len(nodes) > 0 {
		levels = len(nodes[0].racks)
	}
	rackEnds := make([]float64, levels)
	for i := range rackEnds {
		rackEnds[i] = c.addColumn(&left, nodes, rackName(i))
	}
	nodeEnd := c.addColumn(&left, nodes, nodeName)
	if height >= labelledRow {
		widest := 0.0
		for _, l := range shown {
			widest = max(widest, c.ruler.width(laneFace, c.ruler.fit(laneFace, s.rowName(l), 110)))
		}
		left += widest + 8
	}
	left = max(left, margin+c.ruler.width(smallFace, "× 1,000")+10)
	top := plotTop
	if c.figures == "" {
		top -= 17
	}
	c.plot = rect{left, top, c.w - left - margin - 8, 0}
	c.title = c.ruler.fit(titleFace, s.title, c.w-2*margin)
	scale := c.plot.w / float64(s.endUs)
	c.place(s, nodes, shown, height, scale)
	for i, end := range rackEnds {
		c.addBrackets(nodes, rackName(i), i, end)
	}
	c.addBrackets(nodes, nodeName, levels, nodeEnd)
	marks := ticks
	if s.live {
		marks = func(_ int64, most int) []tick { return s.liveTicks(most) }
		c.now = &rect{c.plot.x + float64(s.nowUs)*scale - 0.75, c.plot.y - 4, 1.5, c.plot.h + 9}
	}
	for _, t := range marks(s.endUs, int(c.plot.w/95)) {
		x := c.plot.x + float64(t.us)*scale
		c.ticks = append(c.ticks, mark{x, text{x: x, y: c.plot.y + c.plot.h + 17, s: t.label, face: smallFace, ink: 1,
			mid: true}})
	}
	c.fillBars(shown, scale, mostBars)
	c.joinBlocks(s, nodes)
	c.addBands(s, nodes, scale)
	c.addOverdue(s, scale)
	c.h = c.plot.y + c.plot.h + axisHeight
	c.placeLegend(s)
	c.h += margin
	return c
}

// sample returns every stride-th lane of each type, at least one of each, or the lanes of
// every stride-th node where nodes matter.
func (s *scene) sample(stride int) ([]nodeRows, []*lane) {
	if len(s.nodes) > 0 {
		return s.sampleNodes(stride)
	}
	var out []*lane
	n, last := 0, -1
	for i := range s.lanes {
		if s.lanes[i].typ != last {
			n, last = 0, s.lanes[i].typ
		}
		if n%max(1, stride) == 0 {
			out = append(out, &s.lanes[i])
		}
		n++
	}
	return nil, out
}

// place stacks rows and groups, and marks the times at which GPUs are out of service.
func (c *chart) place(s *scene, nodes []nodeRows, shown []*lane, height, scale float64) {
	count := make([]int, len(s.types))
	for i := range s.lanes {
		count[s.lanes[i].typ]++
	}
	y := c.plot.y
	last, node := -1, 0
	for i, l := range shown {
		for node+1 < len(nodes) && nodes[node+1].first <= i {
			node++
		}
		switch {
		case l.typ != last:
			if last >= 0 {
				y += groupGap
			}
			last = l.typ
			c.groups = append(c.groups, group{rect: rect{c.plot.x, y, c.plot.w, 0}})
		case len(nodes) > 0 && nodes[node].first == i:
			gap := rect{c.plot.x, y, c.plot.w, nodeGap}
			if !slices.Equal(nodes[node].racks, nodes[node-1].racks) {
				gap.h = rackGap
			}
			c.gaps = append(c.gaps, gap)
			y += gap.h
			c.groups[len(c.groups)-1].h += gap.h
		}
		r := row{rect: rect{c.plot.x, y, c.plot.w, height}}
		if height >= labelledRow {
			r.label = text{x: c.plot.x - 7, y: y + height/2 + 3.6, s: c.ruler.fit(laneFace, s.rowName(l), 110),
				face: laneFace, ink: 1, end: true}
		}
		for _, w := range l.away {
			if w.StartUs >= s.endUs {
				break
			}
			x0, x1 := float64(w.StartUs)*scale, float64(min(w.EndUs, s.endUs))*scale
			r.away = append(r.away, rect{c.plot.x + x0, y, x1 - x0, height})
		}
		c.rows = append(c.rows, r)
		y += height
		c.groups[len(c.groups)-1].h += height
	}
	c.plot.h = y - c.plot.y
	for i := range c.groups {
		g := &c.groups[i]
		name := s.types[s.laneType(i)]
		n := "× " + thousandsOf(count[s.laneType(i)])
		mid := g.y + g.h/2
		if g.h >= 28 {
			g.label = []text{{x: margin, y: mid - 1, s: name, face: typeFace}, {x: margin, y: mid + 13, s: n, face: smallFace,
				ink: 1}}
		} else {
			g.label = []text{{x: margin, y: mid + 4.5, s: name, face: typeFace}}
		}
	}
}

// laneType returns the i-th type among those with GPUs.
func (s *scene) laneType(i int) int {
	last, n := -1, -1
	for k := range s.lanes {
		if s.lanes[k].typ != last {
			last = s.lanes[k].typ
			if n++; n == i {
				return last
			}
		}
	}
	return 0
}

// fillBars draws the rows at the finest resolution that keeps the picture small.
func (c *chart) fillBars(shown []*lane, scale float64, most int) {
	for grain := 0.5; ; grain *= 2 {
		total := 0
		for i, l := range shown {
			c.rows[i].bars = barsOf(l.spans, scale, grain)
			if total += len(c.rows[i].bars); total > most && grain < c.plot.w {
				break
			}
		}
		if total <= most || grain >= c.plot.w {
			break
		}
	}
}

// labelBars writes job names into bars that are wide and high enough, once for each
// sequence of bars of a job, and where there is room by how much the job is late.
func (c *chart) labelBars(name, late func(int32) string) {
	for i := range c.rows {
		r := &c.rows[i]
		for k := 0; k < len(r.bars); {
			first := r.bars[k]
			end := first.x1
			for k++; k < len(r.bars) && r.bars[k].job == first.job && r.bars[k].rows == first.rows &&
				r.bars[k].x0-end < 3 && first.tone != setupTone; k++ {
				end = r.bars[k].x1
			}
			y, h := c.block(i, &first)
			if first.rows == inBlock || first.tone == setupTone || h+2*r.inset() < labelledRow {
				continue
			}
			label := name(first.job)
			if long := label + late(first.job); c.ruler.width(laneFace, long) <= end-first.x0-8 {
				label = long
			}
			if s := c.ruler.fit(laneFace, label, end-first.x0-8); s != "" {
				shade := 0
				if textColour(jobColour(first.job)) == white {
					shade = 2
				}
				r.labels = append(r.labels, text{x: c.plot.x + first.x0 + 4, y: y + h/2 + 3.6, s: s, face: laneFace,
					ink: shade})
			}
		}
	}
}

// placeLegend names all jobs or, of many, the heaviest, below the axis.
func (c *chart) placeLegend(s *scene) {
	c.labelBars(func(job int32) string { return s.inst.Jobs[job].ID }, func(job int32) string {
		if late := s.lateUs(job); late > 0 {
			return ", late by " + words.Duration(late)
		}
		return ""
	})
	x, y := margin, c.h+16
	put := func(sw swatch, label string, shade int) {
		width := 16 + c.ruler.width(smallFace, label) + 18
		if x+width > c.w-margin+18 && x > margin {
			x, y = margin, y+legendLine
		}
		sw.rect = rect{x, y - 9, 11, 11}
		c.swatches = append(c.swatches, sw)
		c.legend = append(c.legend, text{x: x + 16, y: y, s: label, face: smallFace, ink: shade})
		x += width
	}
	jobs, head := s.legendJobs()
	if head != "" {
		c.legend = append(c.legend, text{x: x, y: y, s: head, face: smallFace, ink: 1})
		x += c.ruler.width(smallFace, head) + 14
	}
	for _, j := range jobs {
		put(swatch{job: j}, c.ruler.fit(smallFace, s.inst.Jobs[j].ID, 170), 0)
	}
	for _, note := range c.notes() {
		put(swatch{shade: note.shade}, note.words, inkFaint)
	}
	if late := c.ruler.fit(smallFace, s.lateWords(), c.w-2*margin); late != "" {
		y += legendLine
		c.legend = append(c.legend, text{x: margin, y: y, s: late, face: smallFace, ink: inkLate})
	}
	c.h = y + 4
}

// note explains a shade.
type note struct {
	shade shade
	words string
}

// notes explains the shades that the picture has.
func (c *chart) notes() []note {
	var has [shadeAway + 1]bool
	for i := range c.rows {
		has[shadeAway] = has[shadeAway] || len(c.rows[i].away) > 0
		for _, b := range c.rows[i].bars {
			switch b.tone {
			case syncTone:
				has[shadeSync] = true
			case setupTone:
				has[shadeSetup] = true
			case runningTone:
				has[shadeRunning] = true
			}
		}
	}
	has[shadeOverdue], has[shadeReserved] = len(c.overdue) > 0, len(c.bands) > 0
	var out []note
	notes := []note{
		{shadeSync, "synchronising (lighter)"},
		{shadeSetup, "setup of the GPU"},
		{shadeRunning, "runs at time 0"},
		{shadeOverdue, "after the deadline"},
		{shadeReserved, "reserved"},
		{shadeAway, "out of service or busy"},
	}
	if c.now != nil {
		notes[0].words, notes[2].words = "planned (lighter)", "runs now"
	}
	for _, n := range notes {
		if has[n.shade] {
			out = append(out, n)
		}
	}
	return out
}
