package plot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hare-sched/hare/internal/words"
)

// Sample is a named set of durations to compare.
type Sample struct {
	Name string
	Us   []int64 // greater than 0
}

// ErrNoSample says that there is nothing to draw.
var ErrNoSample = errors.New("plot: no durations to draw")

// decades are the ticks of a logarithmic axis of durations.
var decades = []int64{1, 10, 100, 1000, 10_000, 100_000, second, 10 * second, minute, 10 * minute, hour, 10 * hour,
	4 * day, 40 * day, 400 * day, 4000 * day}

// maxPoints limits the points of a curve; more points could not be distinguished.
const maxPoints = 800

// CDF writes, for each sample, the share of durations that are at most x as an SVG
// picture. The axis of x is logarithmic, and the legend has the samples' means. It takes
// O(n log n).
func CDF(w io.Writer, samples []Sample, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	low, high := int64(math.MaxInt64), int64(0)
	for _, s := range samples {
		for _, us := range s.Us {
			low, high = min(low, max(1, us)), max(high, us)
		}
	}
	if high == 0 {
		return ErrNoSample
	}
	area := curveArea(opt, len(samples))
	bottom := area.y + area.h
	from, to := math.Log(float64(low)), math.Log(float64(high))
	if to-from < 1e-9 {
		from, to = from-1, to+1
	}
	x := func(us int64) float64 {
		return area.x + area.w*(math.Log(float64(max(1, us)))-from)/(to-from)
	}
	p := svgWriter{bufio.NewWriter(w)}
	names := make([]string, len(samples))
	for i, s := range samples {
		names[i] = legend(s)
	}
	p.openCurves(opt, area, names)
	for _, us := range decades {
		if us < low || us > high {
			continue
		}
		p.rect(rect{x(us), area.y, 1, area.h + 5}, hex(grid))
		p.text(text{x: x(us), y: bottom + 20, s: words.Duration(us), face: smallFace, ink: 1, mid: true})
	}
	for percent := 0; percent <= 100; percent += 25 {
		y := bottom - area.h*float64(percent)/100
		p.rect(rect{area.x, y, area.w, 1}, hex(grid))
		p.text(text{x: area.x - 8, y: y + 4, s: fmt.Sprint(percent, " %"), face: smallFace, ink: 1, end: true})
	}
	for i, s := range samples {
		p.raw(`<path fill="none" stroke-width="2" stroke="`, hex(jobColour(int32(i))), `" d="`)
		us := slices.Sorted(slices.Values(s.Us))
		stride := 1 + len(us)/maxPoints
		command := "M"
		for n := 0; n < len(us); n += stride {
			p.raw(command, number(x(us[n])), " ", number(bottom-area.h*float64(n)/float64(len(us))))
			command = "L"
		}
		if len(us) > 0 {
			p.raw("L", number(x(us[len(us)-1])), " ", number(area.y))
		}
		p.raw("\"/>\n")
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

func legend(s Sample) string {
	sum := 0.0
	for _, us := range s.Us {
		sum += float64(us)
	}
	if len(s.Us) == 0 {
		return s.Name + ": none"
	}
	return fmt.Sprintf("%s: mean %s of %d", s.Name, words.Duration(int64(sum/float64(len(s.Us)))), len(s.Us))
}

// curveArea returns the area of the curves in a picture with n names.
func curveArea(opt Options, n int) rect {
	width := float64(opt.Width)
	return rect{58, 56 + 20*float64(n), width - 58 - 24, 0.4 * width}
}

// openCurves writes the beginning of a picture of curves: title, background, and the
// names with their colours above the area.
func (sw svgWriter) openCurves(opt Options, area rect, names []string) {
	width, height := number(float64(opt.Width)), area.y+area.h+48
	sw.raw(`<svg xmlns="http://www.w3.org/2000/svg" width="`, width, `" height="`, number(height), `" viewBox="0 0 `,
		width, " ", number(height),
		`" font-family="Go, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif" role="img">`, "\n<title>")
	sw.escaped(opt.Title)
	sw.raw("</title>\n")
	sw.rect(rect{0, 0, float64(opt.Width), height}, "#ffffff")
	sw.rect(area, hex(ground))
	sw.text(text{x: margin, y: 30, s: opt.Title, face: titleFace})
	for i, name := range names {
		y := 56 + 20*float64(i)
		sw.rect(rect{area.x, y - 5, 22, 4}, hex(jobColour(int32(i))))
		sw.text(text{x: area.x + 30, y: y + 1, s: name, face: figureFace})
	}
}
