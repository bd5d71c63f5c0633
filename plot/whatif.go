package plot

import (
	"bufio"
	"errors"
	"image/color"
	"io"
	"math"
	"strconv"
)

// Interval is what is known of a change: it lies between Low and High, which are NaN if
// unknown. Value is the change of the plan, NaN without one. All are in weight-seconds.
type Interval struct {
	Name             string
	Low, High, Value float64
	Note             string // printed at the right
}

// ErrNoIntervals says that there is nothing to draw.
var ErrNoIntervals = errors.New("plot: no intervals to draw")

// maxIntervals limits the intervals of a picture.
const maxIntervals = 400

// IntervalsSVG draws one bar for each interval, with a mark at its value; an unknown end
// fades out. It draws at most the first 400 intervals. It takes O(intervals).
func IntervalsSVG(w io.Writer, all []Interval, opt Options) error {
	d, err := layoutIntervals(all, opt)
	if err != nil {
		return err
	}
	return d.writeSVG(w)
}

// IntervalsPNG draws the same picture as IntervalsSVG in pixels.
func IntervalsPNG(w io.Writer, all []Interval, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	d, err := layoutIntervals(all, opt)
	if err != nil {
		return err
	}
	return d.writePNG(w, opt.Scale)
}

// changeUnit is the unit in which a picture shows changes.
type changeUnit struct {
	seconds     float64
	name, short string
}

// unitOfChange returns the unit for changes of up to most weight-seconds: hours from two
// hours on, days from a hundred days on.
func unitOfChange(most float64) changeUnit {
	switch {
	case most < 7200:
		return changeUnit{1, "seconds", "s"}
	case most < 100*86400:
		return changeUnit{3600, "hours", "h"}
	}
	return changeUnit{86400, "days", "d"}
}

// drawing is a list of coloured rectangles, with lines above them and texts above the
// lines.
type drawing struct {
	title   string
	w, h    float64
	rects   []filled
	strokes []stroke
	texts   []text
}

type filled struct {
	rect
	fill color.RGBA
}

func (d *drawing) rect(r rect, fill color.RGBA) { d.rects = append(d.rects, filled{r, fill}) }

func (d *drawing) writeSVG(w io.Writer) error {
	p := svgWriter{bufio.NewWriter(w)}
	p.raw(`<svg xmlns="http://www.w3.org/2000/svg" width="`, number(d.w), `" height="`, number(d.h),
		`" viewBox="0 0 `, number(d.w), " ", number(d.h),
		`" font-family="Go, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif" role="img">`, "\n<title>")
	p.escaped(d.title)
	p.raw("</title>\n")
	p.rect(rect{0, 0, d.w, d.h}, hex(white))
	for _, r := range d.rects {
		p.rect(r.rect, hex(r.fill))
	}
	for i := range d.strokes {
		d.strokes[i].svg(p)
	}
	for _, t := range d.texts {
		p.text(t)
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

const (
	intervalRow  = 24.0
	intervalTop  = 78.0
	intervalName = 250.0 // the greatest width of names
	intervalNote = 150.0
	fadeWidth    = 60.0 // the length over which an open end fades
)

func layoutIntervals(all []Interval, opt Options) (*drawing, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, ErrNoIntervals
	}
	d := &drawing{title: opt.Title, w: float64(opt.Width)}
	low, high := extent(all)
	unit := unitOfChange(max(high, -low))
	low, high = low/unit.seconds, high/unit.seconds
	size := ""
	if len(all) > maxIntervals {
		size = "the first " + thousandsOf(maxIntervals) + " of " + thousandsOf(len(all)) + " scenarios · "
		all = all[:maxIntervals]
	}
	measure := &textMeasurer{}
	names := 40.0
	for _, x := range all {
		names = max(names, measure.width(smallFace, x.Name))
	}
	names = min(names, intervalName)
	area := rect{margin + names + 12, intervalTop, 0, intervalRow * float64(len(all))}
	area.w = d.w - area.x - intervalNote
	d.h = area.y + area.h + 44
	scale := newScale(low, high)
	place := func(v float64) float64 { return area.x + area.w*scale.share(v) }
	at := func(seconds float64) float64 { return place(seconds / unit.seconds) }
	d.texts = append(d.texts,
		text{x: margin, y: 30, s: opt.Title, face: titleFace},
		text{x: margin, y: 52, s: size + "bars: where the change of the best possible plan must lie · " +
			"marks: change of the plan found, in weight-" + unit.name, face: figureFace, ink: 1})
	d.rect(area, ground)
	for _, m := range scale.marks {
		d.rect(rect{place(m) - 0.5, area.y, 1, area.h + 5}, grid)
		d.texts = append(d.texts,
			text{x: place(m), y: area.y + area.h + 20, s: figure(m), face: smallFace, ink: 1, mid: true})
	}
	d.rect(rect{at(0) - 0.75, area.y, 1.5, area.h + 5}, faint)
	for i, x := range all {
		y := area.y + intervalRow*float64(i)
		name := measure.fit(smallFace, x.Name, names)
		d.texts = append(d.texts, text{x: area.x - 10, y: y + 16, s: name, face: smallFace, end: true})
		if x.Note != "" {
			note := measure.fit(smallFace, x.Note, intervalNote-14)
			d.texts = append(d.texts, text{x: area.x + area.w + 10, y: y + 16, s: note, face: smallFace, ink: 1})
		}
		d.interval(&x, rect{area.x, y + 6, area.w, intervalRow - 12}, at)
	}
	return d, nil
}

// interval draws one bar within r.
func (d *drawing) interval(x *Interval, r rect, at func(float64) float64) {
	colour := hues[4]
	switch {
	case x.High < 0:
		colour = hues[6] // the optimum certainly falls
	case x.Low > 0:
		colour = hues[0] // the optimum certainly rises
	}
	from, to := at(x.Low), at(x.High)
	fade := func(start, step float64) {
		for n := range 12 {
			a := start + step*float64(n)
			b := a + step
			a, b = max(r.x, min(a, b)), min(r.x+r.w, max(a, b))
			if b > a {
				d.rect(rect{a, r.y, b - a, r.h}, blend(colour, ground, float64(n)/12))
			}
		}
	}
	const step = fadeWidth / 12
	switch {
	case math.IsNaN(x.Low) && math.IsNaN(x.High):
		return
	case math.IsNaN(x.High):
		fade(from, step)
	case math.IsNaN(x.Low):
		fade(to, -step)
	default:
		d.rect(rect{from, r.y, max(1, to-from), r.h}, colour)
	}
	if !math.IsNaN(x.Value) {
		d.rect(rect{at(x.Value) - 1.5, r.y - 3, 3, r.h + 6}, ink)
	}
}

// linear is an axis with round marks.
type linear struct {
	low, high float64
	marks     []float64
}

// newScale returns an axis from low to high with marks at multiples of 1, 2 or 5 times a
// power of ten.
func newScale(low, high float64) linear {
	if !(high > low) {
		high = low + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/8)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= 9 {
			step *= f
			break
		}
	}
	s := linear{low: math.Floor(low/step) * step, high: math.Ceil(high/step) * step}
	n := int(math.Round((s.high - s.low) / step))
	for i := 0; i <= n; i++ {
		// The value is parsed from decimals so that labels show no rounding errors.
		m, err := strconv.ParseFloat(strconv.FormatFloat(s.low+float64(i)*step, 'g', 10, 64), 64)
		if err == nil {
			s.marks = append(s.marks, m)
		}
	}
	return s
}

func (li *linear) share(x float64) float64 { return (x - li.low) / (li.high - li.low) }
