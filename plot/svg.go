package plot

import (
	"bufio"
	"encoding/xml"
	"io"
	"math"
	"strconv"
)

// svgWriter writes SVG. It keeps the first error of its writer until the end.
type svgWriter struct {
	w *bufio.Writer
}

func (sw svgWriter) raw(parts ...string) {
	for _, s := range parts {
		sw.w.WriteString(s)
	}
}

// number formats x to a tenth of a pixel.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}

func (sw svgWriter) escaped(s string) { xml.EscapeText(sw.w, []byte(s)) }

func (sw svgWriter) rect(r rect, fill string) {
	sw.raw(`<rect x="`, number(r.x), `" y="`, number(r.y), `" width="`, number(r.w), `" height="`, number(r.h),
		`" fill="`, fill, `"/>`, "\n")
}

var inks = [3]string{hex(ink), hex(faint), hex(white)}

func (sw svgWriter) text(t text) {
	if t.s == "" {
		return
	}
	sw.raw(`<text x="`, number(t.x), `" y="`, number(t.y), `" font-size="`, strconv.FormatFloat(t.face.size, 'f', -1, 64),
		`" fill="`, inks[t.ink], `"`)
	if t.face.bold {
		sw.raw(` font-weight="bold"`)
	}
	switch {
	case t.end:
		sw.raw(` text-anchor="end"`)
	case t.mid:
		sw.raw(` text-anchor="middle"`)
	}
	sw.raw(">")
	sw.escaped(t.s)
	sw.raw("</text>\n")
}

// writeSVG writes one path for each job and shade, so the size is linear in the number
// of bars.
func (c *chart) writeSVG(w io.Writer) error {
	p := svgWriter{bufio.NewWriter(w)}
	p.raw(`<svg xmlns="http://www.w3.org/2000/svg" width="`, number(c.w), `" height="`, number(c.h), `" viewBox="0 0 `,
		number(c.w), " ", number(c.h),
		`" font-family="Go, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif" role="img">`, "\n<title>")
	heading := c.heading()
	for i, t := range heading {
		p.escaped([]string{"", ": ", " · "}[i] + t.s)
	}
	p.raw("</title>\n",
		`<defs><pattern id="away" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`+
			`<rect width="6" height="6" fill="`, hex(hatched),
		`"/><rect width="1.4" height="6" fill="`, hex(hatch), `"/></pattern></defs>`, "\n")
	p.rect(rect{0, 0, c.w, c.h}, "#ffffff")
	for _, t := range heading {
		p.text(t)
	}
	for _, g := range c.groups {
		p.rect(g.rect, hex(ground))
		for _, t := range g.label {
			p.text(t)
		}
	}
	for _, r := range c.gaps {
		p.rect(r, "#ffffff")
	}
	for i := range c.brackets {
		for _, r := range c.brackets[i].strokes() {
			p.rect(r, hex(faint))
		}
		p.text(c.brackets[i].label)
	}
	p.raw(`<path stroke="`, hex(grid), `" fill="none" d="`)
	for _, m := range c.ticks {
		p.raw("M", number(m.x), " ", number(c.plot.y), "v", number(c.plot.h+5))
	}
	p.raw("\"/>\n")
	for _, m := range c.ticks {
		p.text(m.label)
	}
	for i := range c.rows {
		p.text(c.rows[i].label)
		for _, r := range c.rows[i].away {
			p.rect(r, "url(#away)")
		}
	}
	c.pathsOf(p)
	for i := range c.rows {
		for _, t := range c.rows[i].labels {
			p.text(t)
		}
	}
	for _, t := range c.legend {
		p.text(t)
	}
	for _, s := range c.swatches {
		p.rect(s.rect, s.fill())
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

func (sw swatch) fill() string {
	switch {
	case sw.tone:
		return hex(syncColour(hues[6]))
	case sw.job < 0:
		return "url(#away)"
	}
	return hex(jobColour(sw.job))
}

// pathsOf writes the bars, job by job.
func (c *chart) pathsOf(p svgWriter) {
	type place struct {
		row int
		bar
	}
	var jobs int32
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			jobs = max(jobs, b.job+1)
		}
	}
	byJob := make([][]place, jobs)
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			if b.rows != inBlock {
				byJob[b.job] = append(byJob[b.job], place{i, b})
			}
		}
	}
	for job, places := range byJob {
		if len(places) == 0 {
			continue
		}
		p.raw("<g><title>")
		p.escaped(c.names(int32(job)))
		p.raw("</title>")
		for _, light := range []bool{false, true} {
			colour, open := jobColour(int32(job)), false
			if light {
				colour = syncColour(colour)
			}
			for _, b := range places {
				if b.light != light {
					continue
				}
				if !open {
					p.raw(`<path fill="`, hex(colour), `" d="`)
					open = true
				}
				y, h := c.block(b.row, &b.bar)
				// Ends are rounded, not widths, so that neighbouring bars meet.
				x0, x1 := math.Round((c.plot.x+b.x0)*10)/10, math.Round((c.plot.x+b.x1)*10)/10
				width := number(max(0.1, x1-x0))
				p.raw("M", number(x0), " ", number(y), "h", width, "v", number(h), "h-", width, "z")
			}
			if open {
				p.raw(`"/>`)
			}
		}
		p.raw("</g>\n")
	}
}

// heading returns the title and the lines under it.
func (c *chart) heading() []text {
	lines := []text{{x: margin, y: 30, s: c.title, face: titleFace}}
	if c.figures == "" {
		return append(lines, text{x: margin, y: 52, s: c.size, face: figureFace, ink: 1})
	}
	return append(lines, text{x: margin, y: 51, s: c.figures, face: figureFace},
		text{x: margin, y: 69, s: c.size, face: figureFace, ink: 1})
}
