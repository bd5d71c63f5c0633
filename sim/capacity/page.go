package capacity

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/plot/web"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

var pageBody = template.Must(template.New("").Parse(`<h1>What this cluster needs</h1>{{.Theme}}
{{range .Decision}}<p>{{.}}</p>
{{end}}<p class="soft">{{.What}}</p>
{{with .Waits}}<figure tabindex="0">{{.}}</figure>
{{template "table" $.Table}}
{{end}}{{range .Why}}<p>{{.}}</p>
{{end}}{{with .Front}}<h2>Cost against waiting</h2>
<figure tabindex="0">{{.}}</figure>
<p class="soft">Points on the line are those that nothing else here beats in both.</p>
{{end}}{{with .Queue}}<h2>The queue over a week</h2>
<figure tabindex="0">{{.}}</figure>
{{end}}{{with .Certain}}<h2>What is proved</h2>
<p>{{$.CertainText}}</p>
{{template "table" .}}{{end}}
<h2>What was assumed</h2>
<ul>{{range .Assumed}}<li>{{.}}.</li>
{{end}}</ul>
` + web.TableTemplate))

// Page writes the report as one HTML page, which loads nothing from elsewhere.
func (rep *Report) Page(w io.Writer) error {
	head, rows := rep.table()
	data := struct {
		Theme, Waits, Front, Queue template.HTML
		Decision, Why, Assumed     []string
		What, CertainText          string
		Table                      web.Table
		Certain                    *web.Table
	}{Theme: web.ThemeButton, Decision: rep.Decision, What: rep.what() + ".", Assumed: rep.Assumed,
		Why: rep.notes(), Table: web.Table{Words: 2, Heads: head, Rows: rows}}
	if lines := rep.proved(); len(lines) > 0 {
		data.Certain = &web.Table{Words: 1, Rows: lines,
			Heads: []string{"option", "the mean completion gets shorter by at least", "and by at most"}}
		data.CertainText = fmt.Sprintf("For %s of the history, of plans that know all of them beforehand:", rep.certainOf())
	}
	if len(rep.Rows) > 0 {
		var all [3]error
		data.Waits, all[0] = rep.waits()
		data.Queue, all[1] = rep.queue()
		data.Front, all[2] = rep.costs()
		if err := errors.Join(all[:]...); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := pageBody.Execute(&b, data); err != nil {
		return err
	}
	page := web.Page{Kind: web.Report, Title: "Hare: capacity", Body: b.String()}
	return page.Write(w)
}

// svg draws a picture as markup.
func svg(draw func(io.Writer, plot.Options) error) (template.HTML, error) {
	var b bytes.Buffer
	err := draw(&b, plot.Options{Width: 1000})
	return template.HTML(b.String()), err //nolint:gosec // the picture escapes its texts
}

// waits draws the mean waits with their intervals.
func (rep *Report) waits() (template.HTML, error) {
	bars := plot.Bars{Mark: math.NaN(), Legend: "mean wait in hours, with its 95 % interval over the weeks"}
	for i := range rep.Rows {
		r := &rep.Rows[i]
		bars.Bars = append(bars.Bars, plot.Bar{Name: nameOf(r), Value: r.MeanWaitS.Mean / 3600,
			Half: r.MeanWaitS.Half / 3600, Note: words.Seconds(r.MeanWaitS.Mean)})
	}
	return svg(bars.SVG)
}

// queueRows is how many rows the picture of the queue has at most.
const queueRows = 6

// queue draws how many jobs wait over a week.
func (rep *Report) queue() (template.HTML, error) {
	lines := plot.Lines{X: "day of the week", Legend: "waiting jobs, a mean over the weeks", High: 1}
	for i := range min(queueRows, len(rep.Rows)) {
		c := plot.Curve{Name: nameOf(&rep.Rows[i])}
		for h, n := range rep.Rows[i].Queue {
			c.Points = append(c.Points, plot.Point{X: float64(h) / 24, Y: n})
		}
		lines.Curves = append(lines.Curves, c)
	}
	return svg(lines.SVG)
}

// costs draws the mean wait over the cost.
func (rep *Report) costs() (template.HTML, error) {
	if len(rep.Front) == 0 || len(rep.Rows) < 2 {
		return "", nil
	}
	lines := plot.Lines{X: "cost of what is added, a week", Legend: "mean wait in hours", High: 1}
	point := func(r *capacitydoc.Row) plot.Point {
		return plot.Point{X: math.Round(*r.AddedCostPerWeek), Y: r.MeanWaitS.Mean / 3600}
	}
	front := plot.Curve{Name: "nothing beats these", Dots: true}
	for _, i := range rep.Front {
		front.Points = append(front.Points, point(&rep.Rows[i]))
	}
	lines.Curves = append(lines.Curves, front)
	for i := range rep.Rows {
		lines.Curves = append(lines.Curves, plot.Curve{Name: nameOf(&rep.Rows[i]), Dots: true,
			Points: []plot.Point{point(&rep.Rows[i])}})
	}
	return svg(lines.SVG)
}
