package plot

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strconv"
)

// GapCurve is a gap over time.
type GapCurve struct {
	Name   string
	Points []GapPoint // in order of time
	// Dots draws the points and joins them by straight lines. Without Dots, the gap stays
	// constant until the next point.
	Dots bool
}

// GapPoint is a gap, as a fraction, at a time > 0.
type GapPoint struct {
	Seconds, Gap float64
}

// ErrNoGap says that there is nothing to draw.
var ErrNoGap = errors.New("plot: no gaps to draw")

// minGap is drawn for smaller gaps and for 0, because the axis is logarithmic.
const minGap = 1e-4

// Gap writes gaps over time as an SVG picture with two logarithmic axes. It takes
// O(points).
func Gap(w io.Writer, curves []GapCurve, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	shown := func(p GapPoint) bool { return p.Seconds > 0 && p.Gap >= 0 && !math.IsInf(p.Seconds+p.Gap, 1) }
	names := make([]string, len(curves))
	xs, ys := newLogAxis(), newLogAxis()
	for i, c := range curves {
		names[i] = c.Name
		for _, p := range c.Points {
			if shown(p) {
				xs.cover(p.Seconds)
				ys.cover(max(minGap, p.Gap))
			}
		}
	}
	if xs.low > xs.high {
		return ErrNoGap
	}
	area := curveArea(opt, len(curves))
	bottom := area.y + area.h
	xs.addMargin()
	ys.addMargin()
	x := func(s float64) float64 { return area.x + area.w*xs.share(s) }
	y := func(gap float64) float64 { return bottom - area.h*ys.share(max(minGap, gap)) }
	p := svgWriter{bufio.NewWriter(w)}
	p.openCurves(opt, area, names)
	for _, s := range xs.marks() {
		p.rect(rect{x(s), area.y, 1, area.h + 5}, hex(grid))
		p.text(text{x: x(s), y: bottom + 20, s: strconv.FormatFloat(s, 'g', -1, 64) + " s", face: smallFace, ink: 1,
			mid: true})
	}
	for _, gap := range ys.marks() {
		p.rect(rect{area.x, y(gap), area.w, 1}, hex(grid))
		p.text(text{x: area.x - 8, y: y(gap) + 4, s: strconv.FormatFloat(100*gap, 'g', 4, 64) + " %", face: smallFace,
			ink: 1, end: true})
	}
	for i, c := range curves {
		colour := hex(jobColour(int32(i)))
		p.raw(`<path fill="none" stroke-width="2" stroke="`, colour, `" d="`)
		command := "M"
		for _, q := range c.Points {
			if !shown(q) {
				continue
			}
			if command == "L" && !c.Dots {
				p.raw("H", number(x(q.Seconds)))
			}
			p.raw(command, number(x(q.Seconds)), " ", number(y(q.Gap)))
			command = "L"
		}
		p.raw("\"/>\n")
		for _, q := range c.Points {
			if c.Dots && shown(q) {
				p.raw(`<circle cx="`, number(x(q.Seconds)), `" cy="`, number(y(q.Gap)), `" r="3.5" fill="`, colour, "\"/>\n")
			}
		}
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

// logAxis is a range of positive numbers.
type logAxis struct{ low, high float64 }

func newLogAxis() logAxis { return logAxis{math.Inf(1), 0} }

func (la *logAxis) cover(x float64) { la.low, la.high = min(la.low, x), max(la.high, x) }

// addMargin adds a margin, and makes the range at least a factor of 1.5.
func (la *logAxis) addMargin() {
	margin := max(1.05, math.Sqrt(1.5*la.low/la.high))
	la.low, la.high = la.low/margin, la.high*margin
}

func (la *logAxis) share(x float64) float64 { return math.Log(x/la.low) / math.Log(la.high/la.low) }

// marks returns 1, 2 and 5 times powers of ten, or powers alone if there are many.
func (la *logAxis) marks() (out []float64) {
	heads := []float64{1, 2, 5}
	if la.high/la.low > 1e4 {
		heads = heads[:1]
	}
	for e := math.Floor(math.Log10(la.low)); e <= math.Ceil(math.Log10(la.high)); e++ {
		for _, h := range heads {
			// The value is parsed from decimals so that labels show no rounding errors.
			m, err := strconv.ParseFloat(strconv.FormatFloat(h, 'f', 0, 64)+"e"+strconv.Itoa(int(e)), 64)
			if err == nil && m >= la.low && m <= la.high {
				out = append(out, m)
			}
		}
	}
	return out
}
