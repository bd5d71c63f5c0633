package plot

import (
	"errors"
	"io"
	"math"
	"strconv"
)

// DotRow is a row of dots: Values has one for each of Dots.Series, NaN where there is none. Halves are
// half the widths of their intervals, 0 for none.
type DotRow struct {
	Name           string
	Values, Halves []float64
	Note           string // printed at the right
}

// Dots is a picture that compares rows by several values each, on a logarithmic axis. All values are
// positive.
type Dots struct {
	Legend string
	Series []string // the names of the values, which have a colour each
	Rows   []DotRow
	// Mark is a line across all rows, such as a bound that no value can pass; NaN means none.
	Mark float64
}

// ErrNoDots says that there is nothing to draw.
var ErrNoDots = errors.New("plot: no dots to draw")

const (
	dotRow  = 22.0
	dotSize = 8.0
	dotsTop = 98.0
)

// SVG draws the rows from top to bottom. It takes O(values).
func (ds *Dots) SVG(w io.Writer, opt Options) error {
	d, err := ds.layout(opt)
	if err != nil {
		return err
	}
	return d.writeSVG(w)
}

// PNG draws the same picture as SVG in pixels.
func (ds *Dots) PNG(w io.Writer, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	d, err := ds.layout(opt)
	if err != nil {
		return err
	}
	return d.writePNG(w, opt.Scale)
}

func (ds *Dots) layout(opt Options) (*drawing, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	axis, measure := newLogAxis(), &textMeasurer{}
	names, notes := 40.0, 0.0
	for i := range ds.Rows {
		row := &ds.Rows[i]
		names, notes = max(names, measure.width(smallFace, row.Name)), max(notes, measure.width(smallFace, row.Note))
		for k, v := range row.Values {
			if v > 0 && !math.IsInf(v, 0) {
				axis.cover(v)
				axis.cover(v + row.Halves[k])
			}
		}
	}
	if axis.low > axis.high {
		return nil, ErrNoDots
	}
	if ds.Mark > 0 {
		axis.cover(ds.Mark)
	}
	axis.addMargin()
	d := &drawing{title: opt.Title, w: float64(opt.Width)}
	area := rect{margin + names + 12, dotsTop, 0, dotRow * float64(len(ds.Rows))}
	area.w = max(100, d.w-area.x-notes-margin-10)
	d.h = area.y + area.h + 44
	at := func(v float64) float64 { return area.x + area.w*axis.share(min(max(v, axis.low), axis.high)) }
	d.texts = append(d.texts,
		text{x: margin, y: 30, s: opt.Title, face: titleFace},
		text{x: margin, y: 52, s: ds.Legend, face: figureFace, ink: 1})
	for k, x := 0, area.x; k < len(ds.Series); k++ {
		d.rect(rect{x, dotsTop - 27, dotSize, dotSize}, hues[dotColours[k%len(dotColours)]])
		d.texts = append(d.texts, text{x: x + dotSize + 6, y: dotsTop - 19, s: ds.Series[k], face: smallFace})
		x += dotSize + 26 + measure.width(smallFace, ds.Series[k])
	}
	d.rect(area, ground)
	for _, m := range axis.marks() {
		d.rect(rect{at(m) - 0.5, area.y, 1, area.h + 5}, grid)
		d.texts = append(d.texts, text{x: at(m), y: area.y + area.h + 20, s: strconv.FormatFloat(m, 'f', -1, 64),
			face: smallFace, ink: 1, mid: true})
	}
	for i := range ds.Rows {
		ds.row(d, &ds.Rows[i], area, area.y+dotRow*float64(i), at)
	}
	if ds.Mark > 0 {
		d.rect(rect{at(ds.Mark) - 1, area.y - 6, 2, area.h + 12}, ink)
	}
	return d, nil
}

// dotColours are hues that stand apart on the ground of a picture.
var dotColours = []int{1, 0, 3, 6, 5, 8}

func (ds *Dots) row(d *drawing, row *DotRow, area rect, y float64, at func(float64) float64) {
	d.rect(rect{area.x, y + dotRow - 0.5, area.w, 1}, grid)
	d.texts = append(d.texts,
		text{x: area.x - 10, y: y + 15, s: row.Name, face: smallFace, end: true},
		text{x: area.x + area.w + 10, y: y + 15, s: row.Note, face: smallFace, ink: 1})
	// Each series has a height of its own within the row, so that equal values do not hide each other.
	step := (dotRow - dotSize - 4) / float64(max(1, len(ds.Series)-1))
	for k, v := range row.Values {
		if !(v > 0) || math.IsInf(v, 0) {
			continue
		}
		top := y + 2 + step*float64(k)
		colour := hues[dotColours[k%len(dotColours)]]
		if half := row.Halves[k]; half > 0 {
			low, high := at(max(v-half, 1e-300)), at(v+half)
			d.rect(rect{low, top + dotSize/2 - 0.5, high - low, 1}, colour)
		}
		d.rect(rect{at(v) - dotSize/2, top, dotSize, dotSize}, colour)
	}
}
