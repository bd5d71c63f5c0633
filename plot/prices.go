package plot

import (
	"bufio"
	"errors"
	"io"
	"strconv"
)

// PriceCurve is the price of a type by cell of a grid. Behind the grid the price is 0.
type PriceCurve struct {
	Name   string
	Prices []float64 // ≥ 0, one fewer than the points of the grid
}

// ErrNoPrices says that there is nothing to draw.
var ErrNoPrices = errors.New("plot: no prices to draw")

// Prices writes prices over time as an SVG picture of steps. gridUs is in microseconds
// and rises from 0. It takes O(cells · curves).
func Prices(w io.Writer, gridUs []int64, curves []PriceCurve, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	if len(gridUs) < 2 || len(curves) == 0 {
		return ErrNoPrices
	}
	end, top := gridUs[len(gridUs)-1], 0.0
	names := make([]string, len(curves))
	for i, c := range curves {
		if len(c.Prices) != len(gridUs)-1 {
			return ErrNoPrices
		}
		names[i] = c.Name
		for _, x := range c.Prices {
			top = max(top, x)
		}
	}
	scale := newScale(0, top)
	area := curveArea(opt, len(curves))
	bottom := area.y + area.h
	x := func(us int64) float64 { return area.x + area.w*float64(us)/float64(end) }
	y := func(price float64) float64 { return bottom - area.h*scale.share(price) }
	p := svgWriter{bufio.NewWriter(w)}
	p.openCurves(opt, area, names)
	for _, t := range ticks(end, 10) {
		p.rect(rect{x(t.us), area.y, 1, area.h + 5}, hex(grid))
		p.text(text{x: x(t.us), y: bottom + 20, s: t.label, face: smallFace, ink: 1, mid: true})
	}
	for _, m := range scale.marks {
		p.rect(rect{area.x, y(m), area.w, 1}, hex(grid))
		p.text(text{x: area.x - 8, y: y(m) + 4, s: strconv.FormatFloat(m, 'g', 4, 64), face: smallFace, ink: 1, end: true})
	}
	for i, c := range curves {
		p.raw(`<path fill="none" stroke-width="1.5" stroke="`, hex(jobColour(int32(i))), `" d="M`, number(area.x), " ",
			number(y(c.Prices[0])))
		for g, price := range c.Prices {
			p.raw("V", number(y(price)), "H", number(x(gridUs[g+1])))
		}
		p.raw("V", number(bottom), "\"/>\n")
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}
