package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
)

func (r *Report) options(int) plot.Options { return plot.Options{Title: r.Info.Title, Width: 1000} }

// pictures returns the pictures of each group: CDFs, lines over the swept value, or bars.
func (r *Report) pictures() []picture {
	var all []picture
	for _, rows := range groups(r.Rows()) {
		switch {
		case r.Info.cdf:
			all = append(all, r.curves(rows))
		case r.Info.axis == "":
			all = append(all, bars(rows))
		default:
			for _, m := range r.Info.pictured() {
				all = append(all, lines(rows, m, &r.Info))
			}
		}
	}
	return all
}

// leastMean is the number of instances from which an interval of a mean says anything.
const leastMean = 3

// bars draws the weighted JCTs of a group over their bounds, or as they are where some have no bound.
func bars(rows []Row) *plot.Bars {
	b := &plot.Bars{Mark: 1, Legend: " · weighted JCT over the certified bound"}
	of := overBound.of
	if slices.ContainsFunc(rows, func(y Row) bool { return y.BoundS.Mean <= 0 }) {
		b.Mark, b.Legend = math.NaN(), " · weighted JCT in weight-seconds"
		of = func(y *Row) sim.Stat { return y.WeightedJCTS }
	}
	switch n := rows[0].Instances; {
	case n >= leastMean:
		b.Legend += fmt.Sprintf(", mean of %d instances with its 95 %% confidence interval", n)
	case n > 1:
		b.Legend += fmt.Sprintf(", mean of %d instances, too few for an interval", n)
	}
	if b.Mark == 1 {
		b.Legend += " · line: 1, which nobody can go below"
	}
	b.Legend = rows[0].Group + b.Legend
	for i := range rows {
		s := of(&rows[i])
		x := plot.Bar{Name: rows[i].label(), Value: s.Mean, Note: strconv.FormatFloat(s.Mean, 'f', 2, 64)}
		if rows[i].Instances >= leastMean {
			x.Half = s.Half
		}
		b.Bars = append(b.Bars, x)
	}
	return b
}

// lines draws a measure over X, with a line for each variant and scheme and, for bounded
// measures, a line for the bound.
func lines(rows []Row, m measure, x *Info) *plot.Lines {
	l := &plot.Lines{X: x.axis, LogX: x.logarithmic, Legend: rows[0].Group + " · " + m.name}
	if rows[0].Instances > 1 {
		l.Legend += ", mean over instances with its 95 % confidence interval"
	}
	var labels []string
	for i := range rows {
		if name := rows[i].label(); !slices.Contains(labels, name) {
			labels = append(labels, name)
		}
	}
	for _, name := range labels {
		c := plot.Curve{Name: name, Dots: true}
		for i := range rows {
			if rows[i].label() == name {
				s := m.of(&rows[i])
				c.Points = append(c.Points, plot.Point{X: rows[i].X, Y: s.Mean, Half: s.Half})
			}
		}
		l.Curves = append(l.Curves, c)
	}
	if m.bounded && rows[0].Variant == "" {
		c := plot.Curve{Name: "certified bound", Dashed: true}
		for i := range rows {
			y := rows[i].BoundS.Mean
			if m.name == overBound.name {
				y = 1
			}
			if rows[i].Scheme == rows[0].Scheme && y > 0 {
				c.Points = append(c.Points, plot.Point{X: rows[i].X, Y: y})
			}
		}
		l.Curves = append(l.Curves, c)
	}
	return l
}

// cdfPoints is the least number of points to which a CDF of many jobs is thinned.
const cdfPoints = 150

// curves draws the CDF of the JCT for each row of a group, over the jobs of all instances.
func (r *Report) curves(rows []Row) *plot.Lines {
	l := &plot.Lines{X: "JCT, minutes", Legend: rows[0].Group +
		" · share of jobs completed within, %, over all instances", High: 100, LogX: true}
	for i := range rows {
		y := &rows[i]
		var all []float64
		for k := range r.Runs {
			if x := &r.Runs[k]; x.Group == y.Group && x.Scheme == y.Scheme && x.Variant == y.Variant && x.X == y.X {
				all = append(all, x.Metrics.JCTsS...)
			}
		}
		slices.Sort(all)
		c := plot.Curve{Name: y.label()}
		stride := max(1, len(all)/cdfPoints)
		for k, s := range all {
			if s > 0 && (k%stride == 0 || k == len(all)-1) {
				c.Points = append(c.Points, plot.Point{X: s / 60, Y: 100 * float64(k+1) / float64(len(all))})
			}
		}
		l.Curves = append(l.Curves, c)
	}
	return l
}
