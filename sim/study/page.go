package study

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
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// CDF draws the distribution of completion times of each policy as an SVG picture.
// The repeats of a policy are one distribution.
func (r *Report) CDF(w io.Writer) error {
	var samples []plot.Sample
	for i := range r.Runs {
		x := &r.Runs[i]
		if i == 0 || r.Runs[i-1].Policy != x.Policy {
			samples = append(samples, plot.Sample{Name: x.Policy})
		}
		s := &samples[len(samples)-1]
		for k := range x.Figures {
			if f := &x.Figures[k]; f.Counts && !f.Dropped {
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

// pageFigures are the columns of the page's table: figure, heading, digits, and the
// meaning of the column.
var pageFigures = []struct {
	name, head string
	digits     int
	meaning    string
}{
	{"mean_jct_s", "mean JCT s", 1, "mean of completion − arrival over the jobs, in seconds"},
	{"weighted_mean_jct_s", "weighted s", 1, "the same, weighted by the weights of jobs"},
	{"p50_jct_s", "p50 s", 0, "median of completion − arrival"},
	{"p90_jct_s", "p90 s", 0, "90th percentile of it, by nearest rank"},
	{"p99_jct_s", "p99 s", 0, "99th percentile of it"},
	{"mean_wait_s", "wait s", 1, "mean time from the arrival of a job to its first start"},
	{"p99_slowdown", "p99 slow", 2,
		"99th percentile of the jobs' slowdowns: completion − arrival over the time " +
			"that the job's rounds take on its fastest GPUs"},
	{"mean_rho", "rho", 2, "finish-time fairness, mean: completion − arrival over the time with an equal share of " +
		"the cluster; above 1 a job was treated worse"},
	{"worst_rho", "worst rho", 2, "the greatest of these"},
	{"jain", "Jain", 3, "Jain's index of the slowdowns; 1 where all are alike"},
	{"makespan_s", "makespan s", 0, "when the last job ended"},
	{"utilization", "use", 3, "share of the GPU time in service that tasks or leases held"},
	{"switches", "switches", 0, "changes of job on a GPU"},
	{"preemptions", "stopped", 0, "times a job that had not ended let its GPUs go, or moved"},
	{"lost_gpu_s", "lost GPU-s", 0, "GPU time of tasks and leases that were lost; of elastic jobs, of their restarts"},
}

var pageBody = template.Must(template.New("").Parse(`<h1>{{.Title}}</h1>{{.Theme}}<p class="soft">{{.Text}}</p>
{{if .Picture}}<figure tabindex="0">{{.Picture}}</figure>
{{end}}<div class="wide" tabindex="0"><table>
<thead><tr><th class="w">policy</th><th class="w">knows</th>{{range .Heads}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr><td class="w">{{.Policy}}</td><td class="w">{{.Knows}}</td>
{{- range .Cells}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
<details><summary>What the columns say</summary>
<dl>{{range .Meanings}}<dt>{{.Head}}</dt><dd>{{.Text}}</dd>{{end}}</dl></details>
{{if .Notes}}<ul class="soft">{{range .Notes}}<li>{{.}}</li>{{end}}</ul>
{{end}}`))

// Page writes one HTML page with the picture of CDF and a table. The page loads
// nothing from elsewhere.
func (r *Report) Page(w io.Writer) error {
	data := struct {
		Title, Text string
		Theme       template.HTML
		Picture     template.HTML
		Heads       []string
		Meanings    []struct{ Head, Text string }
		Rows        []pageRow
		Notes       []string
	}{Title: "Simulated schedulers", Theme: web.ThemeButton, Notes: r.notes()}
	if len(r.Runs) > 0 {
		data.Text = words.Count(r.Runs[0].Jobs, "job") + ", the same for every policy."
		if p := r.Played; p != nil {
			data.Text += fmt.Sprintf(" Jobs: %s. GPUs: %s. Seed: %d.", p.Jobs, p.Cluster, p.Seed)
		}
	}
	var b bytes.Buffer
	if err := r.CDF(&b); err == nil {
		data.Picture = template.HTML(b.String()) // CDF has escaped all texts
	} else if !errors.Is(err, plot.ErrNoSample) {
		return err
	}
	var of []func(*Run, *simulatedoc.Means) string
	for _, f := range pageFigures {
		data.Heads = append(data.Heads, f.head)
		data.Meanings = append(data.Meanings, struct{ Head, Text string }{f.head, f.meaning})
		of = append(of, plusMinus(f.name, f.digits))
	}
	for i := 0; i < len(r.Runs); {
		x, step := &r.Runs[i], 1
		var m *simulatedoc.Means
		if r.Means != nil {
			m = &r.Means[len(data.Rows)]
			step = int(m.Repeats)
		}
		row := pageRow{Policy: x.Policy, Knows: x.Knows}
		for _, f := range of {
			row.Cells = append(row.Cells, f(x, m))
		}
		data.Rows = append(data.Rows, row)
		i += step
	}
	b.Reset()
	if err := pageBody.Execute(&b, data); err != nil {
		return err
	}
	page := web.Page{Kind: web.Report, Title: data.Title, Body: b.String()}
	return page.Write(w)
}
