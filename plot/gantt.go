package plot

import (
	"errors"
	"io"

	"github.com/hare-sched/hare"
)

// Kinds of charts.
const (
	GanttSVG  = "svg"
	GanttPNG  = "png"
	GanttHTML = "html"
)

// Widths of charts in CSS pixels.
const (
	LeastGanttWidth = 400
	MostGanttWidth  = 4000
)

// Gantt draws the schedule of res, an answer to inst, width CSS pixels wide; 0
// is the width of package plot. O(entries + GPUs log GPUs).
func Gantt(w io.Writer, kind string, inst *hare.Instance, res *hare.Result, width int) error {
	if res.Schedule == nil {
		return ErrNoSchedule
	}
	opt := Options{Width: width}
	switch kind {
	case GanttSVG:
		return SVG(w, inst, res, opt)
	case GanttPNG:
		return PNG(w, inst, res, opt)
	case GanttHTML:
		return HTML(w, inst, res, opt)
	}
	return errors.New("plot: unknown kind of chart: " + kind)
}
