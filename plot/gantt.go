package service

import (
	"errors"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
)

// ErrNoSchedule says that a result holds no schedule: none was found, or the
// solve was asked to leave it out.
var ErrNoSchedule = errors.New("service: the result has no schedule")

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
	opt := plot.Options{Width: width}
	switch kind {
	case GanttSVG:
		return plot.SVG(w, inst, res, opt)
	case GanttPNG:
		return plot.PNG(w, inst, res, opt)
	case GanttHTML:
		return plot.HTML(w, inst, res, opt)
	}
	return errors.New("service: unknown kind of chart: " + kind)
}
