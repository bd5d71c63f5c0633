package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/plot"
)

// Write puts NAME.csv, NAME.md, NAME.html and a picture NAME-N.svg and .png of
// each group into a folder, which it makes, and returns their paths.
func (r *Report) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var files []string
	put := func(ending string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		name := filepath.Join(dir, r.Info.Name+ending)
		files = append(files, name)
		return os.WriteFile(name, b.Bytes(), 0o666)
	}
	err := errors.Join(put(".csv", r.CSV), put(".md", r.Markdown), put(".html", r.HTML))
	for i, p := range r.pictures() {
		n := fmt.Sprintf("-%d", i+1)
		opt := plot.Options{Title: r.Info.Title}
		err = errors.Join(err,
			put(n+".svg", func(w io.Writer) error { return p.SVG(w, opt) }),
			put(n+".png", func(w io.Writer) error { return p.PNG(w, opt) }))
	}
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return files, nil
}

// pictures makes bars of weighted JCT, a picture a group.
func (r *Report) pictures() []*plot.Bars {
	var all []*plot.Bars
	rows := r.Rows()
	for i, y := range rows {
		if i == 0 || rows[i-1].Group != y.Group {
			all = append(all, &plot.Bars{Mark: y.BoundS, Legend: y.Group + " · weighted JCT in weight-seconds, mean over instances · line: certified lower bound"})
			if y.BoundS == 0 {
				all[len(all)-1].Mark = math.NaN()
			}
		}
		b := all[len(all)-1]
		b.Bars = append(b.Bars, plot.Bar{Name: y.Policy, Value: y.WeightedJCTS, Note: fmt.Sprintf("%.2f × bound", y.Ratio)})
	}
	return all
}

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"round":  func(x float64) string { return fmt.Sprintf("%.0f", x) },
	"ratio":  func(x float64) string { return fmt.Sprintf("%.3f", x) },
	"tenths": func(x float64) string { return fmt.Sprintf("%.1f", x) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Info.Title}}</title>
<style>body{font:15px/1.45 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}svg{width:100%;height:auto}</style>
<h1>{{.Info.Title}}</h1>
<p>{{.Info.Text}}</p><p>{{.Info.Published}}</p>
{{range .Pictures}}{{.}}
{{end}}<table><tr><th>instances</th><th>policy</th><th>knows</th><th>weighted JCT</th><th>value/bound</th><th>first is lower by, %</th><th>mean JCT s</th><th>p90 s</th><th>makespan s</th></tr>
{{range .Rows}}<tr><td>{{.Group}}</td><td>{{.Policy}}</td><td>{{.Knows}}</td><td>{{round .WeightedJCTS}}</td><td>{{ratio .Ratio}}</td><td>{{tenths .Lower}}</td><td>{{tenths .MeanJCTS}}</td><td>{{tenths .P90JCTS}}</td><td>{{round .MakespanS}}</td></tr>
{{end}}</table>
</html>
`))

// HTML writes one page with pictures and table, which makes no request.
func (r *Report) HTML(w io.Writer) error {
	data := struct {
		Info     Info
		Pictures []template.HTML
		Rows     []Row
	}{Info: r.Info, Rows: r.Rows()}
	for _, p := range r.pictures() {
		var b bytes.Buffer
		if err := p.SVG(&b, plot.Options{Title: r.Info.Title}); err != nil {
			return err
		}
		data.Pictures = append(data.Pictures, template.HTML(b.String())) // our own, its texts escaped
	}
	return page.Execute(w, data)
}
