package plot

import (
	_ "embed" // the markup
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/plot/web"
)

// maxPageRows of a page of intervals.
const maxPageRows = 5000

// pageInterval is a scenario on the page: its bar in shares of the width, and
// its figures in words.
type pageInterval struct {
	Name, Best, Plan, Note string
	Shade                  string // down, up, open, or "" without a bar
	Left, Right, Mark      template.CSS
	OpenLeft, OpenRight    bool
}

// pageMark is a mark of the axis.
type pageMark struct {
	At    template.CSS
	Label string
	Edge  string // first, last or ""
}

//go:embed whatif.html
var intervalsMarkup string

var intervalsBody = template.Must(template.New("").Parse(intervalsMarkup))

// IntervalsHTML writes a page that shows the bars of IntervalsSVG with their
// figures in words, and says what they mean. It makes no request. Of more than
// 5,000 the first are shown. O(intervals).
func IntervalsHTML(w io.Writer, all []Interval, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return ErrNoIntervals
	}
	data := struct {
		Title, Size string
		Theme       template.HTML
		Zero        template.CSS
		Marks       []pageMark
		Rows        []pageInterval
	}{Title: opt.Title, Theme: web.ThemeButton}
	if len(all) > maxPageRows {
		data.Size = "The first " + thousandsOf(maxPageRows) + " of " + thousandsOf(len(all)) + " scenarios are shown."
		all = all[:maxPageRows]
	}
	low, high := extent(all)
	unit := unitOfChange(max(high, -low))
	scale := newScale(low/unit.seconds, high/unit.seconds)
	share := func(seconds float64) float64 { return scale.share(seconds / unit.seconds) }
	data.Zero = percent(share(0))
	every := (len(scale.marks) + 4) / 5 // of the labels: narrow windows hold about five
	zero := int(math.Round(scale.share(0) * float64(len(scale.marks)-1)))
	for i, m := range scale.marks {
		x := pageMark{At: percent(scale.share(m))}
		switch {
		case i == zero:
			x.Label = "0"
		case (i-zero)%every == 0:
			x.Label = strings.Replace(figure(m), "-", "−", 1) + " " + unit.short
		}
		switch i {
		case 0:
			x.Edge = "first"
		case len(scale.marks) - 1:
			x.Edge = "last"
		}
		data.Marks = append(data.Marks, x)
	}
	for i := range all {
		data.Rows = append(data.Rows, all[i].row(share))
	}
	var body strings.Builder
	if err := intervalsBody.Execute(&body, data); err != nil {
		return err
	}
	page := web.Page{Kind: web.Report, Title: opt.Title, Body: body.String()}
	return page.Write(w)
}

// extent is from the least to the greatest figure, 0 within.
func extent(all []Interval) (low, high float64) {
	for _, x := range all {
		for _, v := range []float64{x.Low, x.High, x.Value} {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return low, high
}

func (x *Interval) row(share func(float64) float64) pageInterval {
	r := pageInterval{Name: x.Name, Note: x.Note, Plan: "no plan"}
	if !math.IsNaN(x.Value) {
		r.Mark = percent(share(x.Value))
		r.Plan = "plan " + change(x.Value)
	}
	r.OpenLeft, r.OpenRight = math.IsNaN(x.Low), math.IsNaN(x.High)
	switch {
	case r.OpenLeft && r.OpenRight:
		r.Best = "not known"
		return r
	case r.OpenLeft:
		r.Best = "at most " + atMost(x.High)
	case r.OpenRight:
		r.Best = "at least " + atLeast(x.Low)
	case x.Low == x.High:
		r.Best = "exactly " + change(x.Low)
	default:
		r.Best = atLeast(x.Low) + " to " + atMost(x.High)
	}
	r.Shade = "open"
	switch {
	case x.High < 0:
		r.Shade = "down"
	case x.Low > 0:
		r.Shade = "up"
	}
	r.Left, r.Right = percent(share(x.Low)), percent(1-share(x.High))
	return r
}

// percent is a share of the width; one that is not a number is never shown.
func percent(share float64) template.CSS {
	if math.IsNaN(share) {
		return ""
	}
	return template.CSS(strconv.FormatFloat(math.Round(share*1e4)/100, 'f', -1, 64) + "%")
}

// change is so many weight-seconds with their sign, as people say durations, to the nearest step of the scale.
func change(seconds float64) string { return changeBy(math.Round, seconds) }

// atLeast and atMost are change rounded down and up, so that what a proved end says is proved too.
func atLeast(seconds float64) string { return changeBy(math.Floor, seconds) }
func atMost(seconds float64) string  { return changeBy(math.Ceil, seconds) }

func changeBy(round func(float64) float64, seconds float64) string {
	us, step := seconds*1e6, int64(1) // the step is the least that duration shows of so much
	switch size := math.Abs(seconds); {
	case size >= 2*86400:
		step = hour
	case size >= 2*3600:
		step = minute
	case size >= 20:
		step = second
	case size >= 1:
		step = second / 100
	}
	us = round(math.Round(us)/float64(step)) * float64(step)
	sign := "+"
	if us < 0 {
		sign = "−"
	}
	switch us = math.Abs(us); {
	case us == 0:
		return "0"
	case us >= 1e18: // beyond an int64
		return sign + thousands(strconv.FormatFloat(us/1e6/86400, 'f', 0, 64)) + " d"
	}
	return sign + words.Duration(int64(us))
}
