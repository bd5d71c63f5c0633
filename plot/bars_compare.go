package plot

import (
	"errors"
	"io"
	"math"
	"strconv"
)

// Bar is a named value, at least 0.
type Bar struct {
	Name  string
	Value float64
	Half  float64 // half of an interval around Value, drawn as a whisker; 0 means none
	Note  string  // printed at the right
}

// Bars is a picture that compares values.
type Bars struct {
	Bars []Bar
	// Mark is a line across all bars, such as a bound that no bar can pass; NaN means none.
	Mark float64
	// Legend says what the bars and the mark are.
	Legend string
}

// ErrNoBars says that there is nothing to draw.
var ErrNoBars = errors.New("plot: no bars to draw")

// SVG draws the bars from 0, one in each row. It takes O(bars).
func (b *Bars) SVG(w io.Writer, opt Options) error {
	d, err := b.layout(opt)
	if err != nil {
		return err
	}
	return d.writeSVG(w)
}

// PNG draws the same picture as SVG in pixels.
func (b *Bars) PNG(w io.Writer, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	d, err := b.layout(opt)
	if err != nil {
		return err
	}
	return d.writePNG(w, opt.Scale)
}

func (b *Bars) layout(opt Options) (*drawing, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	if len(b.Bars) == 0 {
		return nil, ErrNoBars
	}
	d := &drawing{title: opt.Title, w: float64(opt.Width)}
	measure := &textMeasurer{}
	names, notes, high := 40.0, 0.0, 0.0
	for _, x := range b.Bars {
		names = max(names, measure.width(smallFace, x.Name))
		notes = max(notes, measure.width(smallFace, x.Note))
		high = max(high, min(x.Value+x.Half, 2*x.Value))
	}
	if !math.IsNaN(b.Mark) {
		high = max(high, b.Mark)
	}
	area := rect{margin + names + 12, intervalTop, 0, intervalRow * float64(len(b.Bars))}
	area.w = max(100, d.w-area.x-notes-margin-10)
	d.h = area.y + area.h + 44
	scale := newScale(0, high)
	at := func(v float64) float64 { return area.x + area.w*scale.share(v) }
	d.texts = append(d.texts,
		text{x: margin, y: 30, s: opt.Title, face: titleFace},
		text{x: margin, y: 52, s: b.Legend, face: figureFace, ink: 1})
	d.rect(area, ground)
	for _, m := range scale.marks {
		d.rect(rect{at(m) - 0.5, area.y, 1, area.h + 5}, grid)
		d.texts = append(d.texts, text{x: at(m), y: area.y + area.h + 20, s: thousands(strconv.FormatFloat(m, 'f', -1, 64)),
			face: smallFace, ink: 1, mid: true})
	}
	for i, x := range b.Bars {
		y := area.y + intervalRow*float64(i)
		d.texts = append(d.texts,
			text{x: area.x - 10, y: y + 16, s: x.Name, face: smallFace, end: true},
			text{x: area.x + area.w + 10, y: y + 16, s: x.Note, face: smallFace, ink: 1})
		d.rect(rect{area.x, y + 5, max(0, at(x.Value)-area.x), intervalRow - 10}, hues[4])
		if x.Half > 0 {
			low, high := at(max(0, x.Value-x.Half)), min(at(x.Value+x.Half), area.x+area.w)
			d.rect(rect{low, y + intervalRow/2 - 1, high - low, 2}, ink)
		}
	}
	if !math.IsNaN(b.Mark) {
		d.rect(rect{at(b.Mark) - 1, area.y - 6, 2, area.h + 12}, ink)
	}
	return d, nil
}
