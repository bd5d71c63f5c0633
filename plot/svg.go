package plot

import (
	"bufio"
	"encoding/xml"
	"io"
	"math"
	"slices"
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

var inks = [...]string{hex(ink), inkFaint: hex(faint), inkWhite: hex(white), inkLate: hex(late),
	inkReserved: hex(reserveInk)}

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
		`"/><rect width="1.4" height="6" fill="`, hex(hatch), `"/></pattern>`)
	if len(c.bands) > 0 {
		p.raw(`<pattern id="reserved" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">`+
			`<rect width="7" height="7" fill="`, hex(reserveFill), `"/><rect width="1.6" height="7" fill="`, hex(reserveLine),
			`"/></pattern>`)
	}
	if c.running() {
		p.raw(`<pattern id="running" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
			`<rect width="2" height="7" fill="#ffffff" fill-opacity="0.45"/></pattern>`)
	}
	p.raw("</defs>\n")
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
	for i := range c.bands {
		c.bands[i].svg(p, c.ruler)
	}
	c.pathsOf(p)
	for _, o := range c.overdue {
		if o.hairline.h > 0 {
			p.rect(o.hairline, hex(white))
		}
		p.rect(o.rule, hex(late))
	}
	if c.now != nil {
		p.rect(*c.now, hex(late))
	}
	for i := range c.rows {
		for _, t := range c.rows[i].labels {
			p.text(t)
		}
	}
	for _, t := range c.legend {
		p.text(t)
	}
	for _, s := range c.swatches {
		s.svg(p)
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

func (sw swatch) svg(p svgWriter) {
	switch sw.shade {
	case shadeSync:
		p.rect(sw.rect, hex(syncColour(sample)))
	case shadeSetup:
		p.rect(sw.neck(), hex(sample))
	case shadeRunning:
		p.rect(sw.rect, hex(sample))
		p.rect(sw.rect, "url(#running)")
	case shadeOverdue:
		p.rect(sw.rect, hex(sample))
		p.rect(sw.rule(), hex(late))
	case shadeReserved:
		p.rect(sw.rect, "url(#reserved)")
	case shadeAway:
		p.rect(sw.rect, "url(#away)")
	default:
		p.rect(sw.rect, hex(jobColour(sw.job)))
	}
}

// neck is the sample of a setup, and rule that of work after the deadline.
func (sw swatch) neck() rect {
	return rect{sw.x, sw.y + (1-setupShare)/2*sw.h, sw.w, setupShare * sw.h}
}

func (sw swatch) rule() rect { return rect{sw.x, sw.y + sw.h - 3, sw.w, 3} }

// running reports whether the picture has work that runs at time 0.
func (c *chart) running() bool {
	return slices.ContainsFunc(c.notes(), func(n note) bool { return n.shade == shadeRunning })
}

// svg draws a reservation with lines at its ends.
func (b *band) svg(p svgWriter, ruler *textMeasurer) {
	p.raw("<g><title>")
	p.escaped(b.who)
	p.raw("</title>")
	p.rect(b.rect, "url(#reserved)")
	for _, r := range b.ends() {
		p.rect(r, hex(reserveLine))
	}
	if b.label.s != "" {
		p.rect(b.ground(ruler), hex(reserveFill))
		p.text(b.label)
	}
	p.raw("</g>\n")
}

// ends are the lines at the beginning and the end of a reservation.
func (b *band) ends() []rect {
	return []rect{{b.x, b.y, 1, b.h}, {b.x + b.w - 1, b.y, 1, b.h}}
}

// pathsOf writes the bars, job by job.
func (c *chart) pathsOf(p svgWriter) {
	var jobs int32
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			jobs = max(jobs, b.job+1)
		}
	}
	byJob := make([][]barPlace, jobs)
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			if b.rows != inBlock {
				byJob[b.job] = append(byJob[b.job], barPlace{i, b})
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
		colour := jobColour(int32(job))
		for i, fills := range [...][]string{workTone: {hex(colour)}, syncTone: {hex(syncColour(colour))},
			setupTone: {hex(colour)}, runningTone: {hex(colour), "url(#running)"}} {
			tone := tone(i)
			if !slices.ContainsFunc(places, func(b barPlace) bool { return b.tone == tone }) {
				continue
			}
			for _, fill := range fills {
				c.path(p, fill, places, tone)
			}
		}
		p.raw("</g>\n")
	}
}

// barPlace is a bar of a row.
type barPlace struct {
	row int
	bar
}

// path writes the bars of one tone as one path.
func (c *chart) path(p svgWriter, fill string, places []barPlace, tone tone) {
	p.raw(`<path fill="`, fill, `" d="`)
	for _, b := range places {
		if b.tone != tone {
			continue
		}
		y, h := c.block(b.row, &b.bar)
		// Ends are rounded, not widths, so that neighbouring bars meet.
		x0, x1 := math.Round((c.plot.x+b.x0)*10)/10, math.Round((c.plot.x+b.x1)*10)/10
		width := number(max(0.1, x1-x0))
		p.raw("M", number(x0), " ", number(y), "h", width, "v", number(h), "h-", width, "z")
	}
	p.raw(`"/>`)
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
