package study

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/hare-sched/hare/plot"
)

// CDF draws the distribution of completion times of each policy, its repeats
// together, as an SVG picture. Jobs that took no time at all do not occur.
func (r *Report) CDF(w io.Writer) error {
	var samples []plot.Sample
	for i := range r.Runs {
		x := &r.Runs[i]
		if i == 0 || r.Runs[i-1].Policy != x.Policy {
			samples = append(samples, plot.Sample{Name: x.Policy})
		}
		s := &samples[len(samples)-1]
		for k := range x.Each {
			if f := &x.Each[k]; f.Counts && !f.Dropped {
				s.Us = append(s.Us, int64(math.Round(f.JCTS*1e6)))
			}
		}
	}
	return plot.CDF(w, samples, plot.Options{Title: "Job completion times: share of jobs that ended within a time"})
}

// pageRow is a policy of the page's table.
type pageRow struct {
	Policy string
	Knows  string
	Cells  []string
}

// pageFigures are the columns of the page's table: figure, head, digits.
var pageFigures = []struct {
	name, head string
	digits     int
}{
	{"mean_jct_s", "mean JCT s", 1}, {"weighted_mean_jct_s", "weighted s", 1}, {"p50_jct_s", "p50 s", 0}, {"p90_jct_s", "p90 s", 0}, {"p99_jct_s", "p99 s", 0},
	{"mean_wait_s", "wait s", 1}, {"p99_slowdown", "p99 slow", 2}, {"mean_rho", "rho", 2}, {"worst_rho", "worst rho", 2}, {"jain", "Jain", 3},
	{"makespan_s", "makespan s", 0}, {"utilization", "use", 3}, {"switches", "switches", 0}, {"preemptions", "stopped", 0}, {"lost_gpu_s", "lost GPU-s", 0},
}

var pageTemplate = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>{{.Title}}</title>
<style>body{font:15px/1.45 "Helvetica Neue",Arial,"DejaVu Sans",sans-serif;color:#1c232e;max-width:1320px;margin:2em auto;padding:0 1em}h1{font-size:1.4em}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap;font-size:13px}td,th{padding:.3em .55em;border-bottom:1px solid #dfe3e9;text-align:right}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}th{color:#5b6675;font-weight:600}svg{width:100%;height:auto}p,li{color:#5b6675}</style></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{.Picture}}
<div class="wide"><table><tr><th>policy</th><th>knows</th>{{range .Heads}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr><td>{{.Policy}}</td><td>{{.Knows}}</td>{{range .Cells}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
{{if .Notes}}<ul>{{range .Notes}}<li>{{.}}</li>{{end}}</ul>
{{end}}</body></html>
`))

// Page writes one HTML page with the picture of CDF and a table. It makes no
// request.
func (r *Report) Page(w io.Writer) error {
	data := struct {
		Title, Text string
		Picture     template.HTML
		Heads       []string
		Rows        []pageRow
		Notes       []string
	}{Title: "Simulated schedulers", Notes: r.notes()}
	if len(r.Runs) > 0 {
		data.Text = fmt.Sprintf("%d jobs, the same for every policy.", r.Runs[0].Jobs)
	}
	var b bytes.Buffer
	if err := r.CDF(&b); err == nil {
		data.Picture = template.HTML(b.String()) // our own, its texts escaped
	} else if !errors.Is(err, plot.ErrNoSample) {
		return err
	}
	var of []func(*Run, *Means) string
	for _, f := range pageFigures {
		data.Heads = append(data.Heads, f.head)
		of = append(of, plusMinus(f.name, f.digits))
	}
	for i := 0; i < len(r.Runs); {
		x, step := &r.Runs[i], 1
		var m *Means
		if r.Means != nil {
			m = &r.Means[len(data.Rows)]
			step = m.Repeats
		}
		row := pageRow{Policy: x.Policy, Knows: string(x.Knows)}
		for _, f := range of {
			row.Cells = append(row.Cells, f(x, m))
		}
		data.Rows = append(data.Rows, row)
		i += step
	}
	return pageTemplate.Execute(w, data)
}
