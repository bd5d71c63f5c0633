// Package plot draws schedules as Gantt charts: SVG and PNG pictures, and a
// self-contained HTML page with zoom.
package plot

import (
	"fmt"
	"io"
	"math"

	hare "github.com/hare-sched/hare"
)

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

// SVG writes the schedule of res, an answer to inst, as a scalable picture. The size of
// the picture is bounded: entries narrower than a pixel are merged, and of many GPUs
// every n-th is drawn. It takes O(entries + GPUs log GPUs).
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

// PNG writes the same picture as SVG in pixels.
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

// HTML writes a page that shows the schedule with zoom, search and details under the
// pointer. The page is self-contained and makes no request. Beyond a few hundred
// thousand entries, the page holds every n-th GPU of a type.
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
