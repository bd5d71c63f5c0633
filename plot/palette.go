package plot

import (
	"fmt"
	"image/color"
)

// hues are Paul Tol's "muted" scheme in his order; colour-blind readers can tell them
// apart too.
var hues = [9]color.RGBA{
	{0xCC, 0x66, 0x77, 255}, {0x33, 0x22, 0x88, 255}, {0xDD, 0xCC, 0x77, 255},
	{0x11, 0x77, 0x33, 255}, {0x88, 0xCC, 0xEE, 255}, {0x88, 0x22, 0x55, 255},
	{0x44, 0xAA, 0x99, 255}, {0x99, 0x99, 0x33, 255}, {0xAA, 0x44, 0x99, 255},
}

// palette holds the hues, then lighter and then darker ones.
var palette = func() []color.RGBA {
	var out []color.RGBA
	for _, tone := range []struct {
		to    uint8
		share float64
	}{{0, 0}, {255, 0.38}, {20, 0.32}} {
		for _, c := range hues {
			out = append(out, blend(c, color.RGBA{tone.to, tone.to, tone.to, 255}, tone.share))
		}
	}
	return out
}()

// jobColour depends only on the job's index in the instance.
func jobColour(job int32) color.RGBA { return palette[int(job)%len(palette)] }

// blend mixes the given share of b into a.
func blend(a, b color.RGBA, share float64) color.RGBA {
	mix := func(x, y uint8) uint8 { return uint8(float64(x)*(1-share) + float64(y)*share + 0.5) }
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// syncColour returns the light tone of synchronisation.
func syncColour(c color.RGBA) color.RGBA { return blend(c, white, 0.55) }

// textColour returns a colour of text that is legible on c.
func textColour(c color.RGBA) color.RGBA {
	if 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) > 140 {
		return ink
	}
	return white
}

// sample is the colour of a job in the samples of shades.
var sample = hues[6]

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

var (
	white   = color.RGBA{255, 255, 255, 255}
	ink     = color.RGBA{0x1c, 0x23, 0x2e, 255}
	faint   = color.RGBA{0x5b, 0x66, 0x75, 255}
	ground  = color.RGBA{0xf3, 0xf5, 0xf8, 255}
	grid    = color.RGBA{0xdf, 0xe3, 0xe9, 255}
	hatch   = color.RGBA{0xb4, 0xbc, 0xc8, 255}
	hatched = color.RGBA{0xe6, 0xe9, 0xee, 255}
	// Of reservations, and of what is late.
	reserveLine = color.RGBA{0x9d, 0xbb, 0xe0, 255}
	reserveFill = color.RGBA{0xe4, 0xee, 0xfa, 255}
	reserveInk  = color.RGBA{0x2c, 0x53, 0x85, 255}
	late        = color.RGBA{0xc2, 0x16, 0x0c, 255}
)
