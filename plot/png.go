package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/math/fixed"
)

// canvas draws in CSS pixels on an image with scale pixels per CSS pixel.
type canvas struct {
	img   *image.RGBA
	scale float64
	ruler *textMeasurer
}

// rect fills r; pixels at the edges are blended in proportion to the covered area.
func (ca *canvas) rect(r rect, c color.RGBA) {
	ca.fill(r, func(int, int) color.RGBA { return c })
}

// hatch fills r with diagonal lines.
func (ca *canvas) hatch(r rect) {
	period := 6 * ca.scale * math.Sqrt2
	ca.fill(r, func(x, y int) color.RGBA {
		if math.Mod(float64(x+y), period) < 1.4*ca.scale*math.Sqrt2 {
			return hatch
		}
		return hatched
	})
}

// reserved fills r with diagonal lines in the other direction.
func (ca *canvas) reserved(r rect) {
	period := 7 * ca.scale * math.Sqrt2
	ca.fill(r, func(x, y int) color.RGBA {
		if at := math.Mod(float64(x-y), period); at < 0 && at+period < 1.6*ca.scale*math.Sqrt2 ||
			at >= 0 && at < 1.6*ca.scale*math.Sqrt2 {
			return reserveLine
		}
		return reserveFill
	})
}

// running fills r with stripes of a colour.
func (ca *canvas) running(r rect, c color.RGBA) {
	period, light := 7*ca.scale*math.Sqrt2, blend(c, white, 0.45)
	ca.fill(r, func(x, y int) color.RGBA {
		if math.Mod(float64(x+y), period) < 2*ca.scale*math.Sqrt2 {
			return light
		}
		return c
	})
}

func (ca *canvas) fill(r rect, at func(x, y int) color.RGBA) {
	x0, x1 := r.x*ca.scale, (r.x+r.w)*ca.scale
	y0, y1 := r.y*ca.scale, (r.y+r.h)*ca.scale
	b := ca.img.Bounds()
	for y := max(int(math.Floor(y0)), b.Min.Y); y < min(int(math.Ceil(y1)), b.Max.Y); y++ {
		cy := min(y1, float64(y+1)) - max(y0, float64(y))
		for x := max(int(math.Floor(x0)), b.Min.X); x < min(int(math.Ceil(x1)), b.Max.X); x++ {
			cover := cy * (min(x1, float64(x+1)) - max(x0, float64(x)))
			c := at(x, y)
			if cover < 0.999 {
				c = blend(ca.img.RGBAAt(x, y), c, max(0, cover))
			}
			ca.img.SetRGBA(x, y, c)
		}
	}
}

var textColours = [...]color.RGBA{ink, inkFaint: faint, inkWhite: white, inkLate: late, inkReserved: reserveInk}

func (ca *canvas) text(t text) {
	if t.s == "" {
		return
	}
	x := t.x
	switch {
	case t.end:
		x -= ca.ruler.width(t.face, t.s)
	case t.mid:
		x -= ca.ruler.width(t.face, t.s) / 2
	}
	d := font.Drawer{
		Dst:  ca.img,
		Src:  image.NewUniform(textColours[t.ink]),
		Face: ca.ruler.face(t.face, ca.scale),
		Dot:  fixed.Point26_6{X: fixed.Int26_6(x * ca.scale * 64), Y: fixed.Int26_6(t.y * ca.scale * 64)},
	}
	d.DrawString(t.s)
}

// writePNG draws the chart in the order of writeSVG.
func (c *chart) writePNG(w io.Writer, scale int) error {
	k := &canvas{scale: float64(scale), ruler: c.ruler}
	k.img = image.NewRGBA(image.Rect(0, 0, int(math.Ceil(c.w*k.scale)), int(math.Ceil(c.h*k.scale))))
	draw.Draw(k.img, k.img.Bounds(), image.White, image.Point{}, draw.Src)
	for _, t := range c.heading() {
		k.text(t)
	}
	for _, g := range c.groups {
		k.rect(g.rect, ground)
		for _, t := range g.label {
			k.text(t)
		}
	}
	for _, r := range c.gaps {
		k.rect(r, white)
	}
	for i := range c.brackets {
		for _, r := range c.brackets[i].strokes() {
			k.rect(r, faint)
		}
		k.text(c.brackets[i].label)
	}
	for _, m := range c.ticks {
		k.rect(rect{m.x - 0.5, c.plot.y, 1, c.plot.h + 5}, grid)
		k.text(m.label)
	}
	for i := range c.rows {
		r := &c.rows[i]
		k.text(r.label)
		for _, a := range r.away {
			k.hatch(a)
		}
	}
	for i := range c.bands {
		b := &c.bands[i]
		k.reserved(b.rect)
		for _, r := range b.ends() {
			k.rect(r, reserveLine)
		}
		if b.label.s != "" {
			k.rect(b.ground(c.ruler), reserveFill)
			k.text(b.label)
		}
	}
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			if b.rows == inBlock {
				continue
			}
			y, h := c.block(i, &b)
			colour, at := jobColour(b.job), rect{c.plot.x + b.x0, y, b.x1 - b.x0, h}
			switch b.tone {
			case syncTone:
				k.rect(at, syncColour(colour))
			case runningTone:
				k.running(at, colour)
			default:
				k.rect(at, colour)
			}
		}
	}
	for _, o := range c.overdue {
		k.rect(o.hairline, white)
		k.rect(o.rule, late)
	}
	for i := range c.rows {
		for _, t := range c.rows[i].labels {
			k.text(t)
		}
	}
	for _, t := range c.legend {
		k.text(t)
	}
	for _, s := range c.swatches {
		k.swatch(s)
	}
	return png.Encode(w, k.img)
}

func (ca *canvas) swatch(sw swatch) {
	switch sw.shade {
	case shadeSync:
		ca.rect(sw.rect, syncColour(sample))
	case shadeSetup:
		ca.rect(sw.neck(), sample)
	case shadeRunning:
		ca.running(sw.rect, sample)
	case shadeOverdue:
		ca.rect(sw.rect, sample)
		ca.rect(sw.rule(), late)
	case shadeReserved:
		ca.reserved(sw.rect)
	case shadeAway:
		ca.hatch(sw.rect)
	default:
		ca.rect(sw.rect, jobColour(sw.job))
	}
}
