package plot

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"

	"golang.org/x/image/vector"
)

// stroke is a polyline in CSS pixels.
type stroke struct {
	points       [][2]float64
	colour       color.RGBA
	dashed, thin bool
}

const (
	dash = 7.0 // in pixels
	gap  = 5.0
)

func (st *stroke) width() float64 {
	if st.thin {
		return 0.75
	}
	return 2
}

func (st *stroke) svg(p svgWriter) {
	p.raw(`<path fill="none" stroke-linejoin="round" stroke-width="`, hundredths(st.width()), `" stroke="`,
		hex(st.colour), `"`)
	if st.dashed {
		p.raw(` stroke-dasharray="`, number(dash), " ", number(gap), `"`)
	}
	p.raw(` d="`)
	command := "M"
	for _, at := range st.points {
		p.raw(command, number(at[0]), " ", number(at[1]))
		command = "L"
	}
	p.raw("\"/>\n")
}

func hundredths(x float64) string { return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) }

// stroke draws st. The ends of each piece are square, and the joints are round enough at
// a width of two pixels.
func (ca *canvas) stroke(s *stroke) {
	b := ca.img.Bounds()
	r := vector.NewRasterizer(b.Dx(), b.Dy())
	half := s.width() * ca.scale / 2
	along := 0.0 // the length drawn so far, for dashes
	for i := 1; i < len(s.points); i++ {
		a, z := s.points[i-1], s.points[i]
		length := math.Hypot(z[0]-a[0], z[1]-a[1])
		if length == 0 {
			continue
		}
		ux, uy := (z[0]-a[0])/length, (z[1]-a[1])/length
		if !s.dashed {
			ca.piece(r, a, ux, uy, 0, length, half)
			continue
		}
		for from := -math.Mod(along, dash+gap); from < length; from += dash + gap {
			if end := min(length, from+dash); end > max(0, from) {
				ca.piece(r, a, ux, uy, max(0, from), end, half)
			}
		}
		along += length
	}
	r.Draw(ca.img, b, image.NewUniform(s.colour), image.Point{})
}

// piece adds a rectangle along a line, slightly longer than the line.
func (ca *canvas) piece(r *vector.Rasterizer, a [2]float64, ux, uy, from, end, half float64) {
	x0, y0 := (a[0]+ux*from)*ca.scale-ux*half/2, (a[1]+uy*from)*ca.scale-uy*half/2
	x1, y1 := (a[0]+ux*end)*ca.scale+ux*half/2, (a[1]+uy*end)*ca.scale+uy*half/2
	nx, ny := -uy*half, ux*half
	r.MoveTo(float32(x0+nx), float32(y0+ny))
	r.LineTo(float32(x1+nx), float32(y1+ny))
	r.LineTo(float32(x1-nx), float32(y1-ny))
	r.LineTo(float32(x0-nx), float32(y0-ny))
	r.ClosePath()
}

// writePNG draws the same picture as writeSVG.
func (d *drawing) writePNG(w io.Writer, scale int) error {
	k := &canvas{scale: float64(scale), ruler: &textMeasurer{}}
	k.img = image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.w*k.scale)), int(math.Ceil(d.h*k.scale))))
	draw.Draw(k.img, k.img.Bounds(), image.White, image.Point{}, draw.Src)
	for _, r := range d.rects {
		k.rect(r.rect, r.fill)
	}
	for i := range d.strokes {
		k.stroke(&d.strokes[i])
	}
	for _, t := range d.texts {
		k.text(t)
	}
	return png.Encode(w, k.img)
}
