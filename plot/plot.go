// Package plot draws schedules as Gantt charts: SVG and PNG pictures, and a
// self-contained HTML page with zoom.
package plot

import (
	"errors"
	"fmt"
	"io"
	"math"

	hare "github.com/hare-sched/hare"
)

// Options of a chart. The zero value is good.
type Options struct {
	// Title is the headline; empty means the instance's name.
	Title string
	// Width is in CSS pixels, 400 to 8000; zero means 1200. HTML pages fit
	// their window instead.
	Width int
	// Scale is how many pixels of a PNG make a CSS pixel, 1 to 4; zero means 2.
	Scale int
}

// ErrNoSchedule says that a result carries no schedule to draw.
var ErrNoSchedule = errors.New("plot: the result has no schedule: solve with detail lanes")

func (o Options) resolve() (Options, error) {
	if o.Width == 0 {
		o.Width = 1200
	}
	if o.Scale == 0 {
		o.Scale = 2
	}
	if o.Width < 400 || o.Width > 8000 {
		return o, fmt.Errorf("plot: width is %d; it must be 400 to 8000", o.Width)
	}
	if o.Scale < 1 || o.Scale > 4 {
		return o, fmt.Errorf("plot: scale is %d; it must be 1 to 4", o.Scale)
	}
	return o, nil
}

// SVG writes the schedule of res, an answer to inst, as a picture that scales.
// Its size is bounded however many tasks there are: entries narrower than a
// pixel are merged and of many GPUs every n-th is drawn.
// O(entries + GPUs log GPUs).
func SVG(w io.Writer, inst *hare.Instance, res *hare.Result, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	s, err := newScene(inst, res, opt.Title)
	if err != nil {
		return err
	}
	return s.layout(opt, maxBars).writeSVG(w)
}

// PNG writes the picture of SVG as pixels.
func PNG(w io.Writer, inst *hare.Instance, res *hare.Result, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	s, err := newScene(inst, res, opt.Title)
	if err != nil {
		return err
	}
	return s.layout(opt, math.MaxInt).writePNG(w, opt.Scale)
}

// HTML writes a page that shows the schedule with zoom, search and details
// under the pointer. It needs nothing but itself and makes no request. Beyond
// a few hundred thousand entries it holds every n-th GPU of a type.
func HTML(w io.Writer, inst *hare.Instance, res *hare.Result, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	s, err := newScene(inst, res, opt.Title)
	if err != nil {
		return err
	}
	return s.writeHTML(w)
}
