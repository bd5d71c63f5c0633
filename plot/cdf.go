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

// maxPoints limits the points of a curve; more points could not be distinguished.
const maxPoints = 800

// CDF writes, for each sample, the share of durations that are at most x as an SVG
// picture: a step for each duration. The axis of x is logarithmic and says so, and the legend has the samples' means.
// It takes O(n log n).
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
	for _, t := range logTicks(low, high, x) {
		p.rect(rect{x(t.us), area.y, 1, area.h + 5}, hex(grid))
		p.text(text{x: x(t.us), y: bottom + 20, s: t.label, face: smallFace, ink: 1, mid: true})
	}
	p.text(text{x: area.x + area.w/2, y: bottom + 40, s: "time, on a logarithmic axis", face: smallFace, ink: 1,
		mid: true})
	for percent := 0; percent <= 100; percent += 25 {
		y := bottom - area.h*float64(percent)/100
		p.rect(rect{area.x, y, area.w, 1}, hex(grid))
		p.text(text{x: area.x - 8, y: y + 4, s: fmt.Sprint(percent, " %"), face: smallFace, ink: 1, end: true})
	}
	for i, s := range samples {
		p.raw(`<path fill="none" stroke-width="2" stroke="`, hex(jobColour(int32(i))), `" d="`)
		us := slices.Sorted(slices.Values(s.Us))
		stride := 1 + len(us)/maxPoints
		p.raw("M", number(area.x), " ", number(bottom))
		step := func(n int) { // n+1 durations are at most us[n]
			p.raw("H", number(x(us[n])), "V", number(bottom-area.h*float64(n+1)/float64(len(us))))
		}
		for n := 0; n < len(us)-1; n += stride {
			step(n)
		}
		if len(us) > 0 {
			step(len(us) - 1)
			p.raw("H", number(area.x+area.w))
		}
		p.raw("\"/>\n")
	}
	p.raw("</svg>\n")
	return p.w.Flush()
}

// tickRoom is the least distance between two labels of a logarithmic axis, in pixels.
const tickRoom = 64

// logTicks returns marks of a logarithmic axis from low to high: the powers of ten of each unit first, then the steps
// between them for which there is room; where the axis is too short for two of these, marks at equal distances.
func logTicks(low, high int64, x func(int64) float64) (out []tick) {
	take := func(us, step int64) {
		near := func(t tick) bool { return math.Abs(x(t.us)-x(us)) < tickRoom }
		if us >= low && us <= high && !slices.ContainsFunc(out, near) {
			out = append(out, tick{us, axisLabel(us, step)})
		}
	}
	for _, us := range []int64{second, minute, hour, day} {
		take(us, us)
	}
	for us := int64(1); us < second; us *= 10 {
		take(us, us)
	}
	for us := day; us < 1e6*day; us *= 10 {
		take(us, us)
	}
	for _, us := range []int64{10 * second, 10 * minute, 6 * hour} {
		take(us, us)
	}
	for _, us := range steps {
		take(us, us)
	}
	if len(out) < 3 {
		out = nil
		for _, step := range steps {
			if n := (high - low) / step; n <= 8 {
				for us := (low + step - 1) / step * step; us <= high; us += step {
					take(us, step)
				}
				break
			}
		}
	}
	return out
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
