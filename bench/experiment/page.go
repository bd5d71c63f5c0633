package experiment

import (
	"bytes"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/plot/web"
)

var pages = template.Must(template.New("").Parse(`{{define "head"}}<h1>{{.Title}}</h1>{{.Theme}}
{{end}}{{define "page"}}{{template "head" .}}<p>{{.Text}}</p><p>{{.Published}}</p>
{{range .Pictures}}<figure tabindex="0">{{.}}</figure>
{{end}}{{range .Tables}}{{$t := .}}<div class="wide" tabindex="0"><table><caption>{{.Caption}}</caption>
<thead><tr>{{range $i, $h := .Heads}}<th class="wrap{{if lt $i $t.Texts}} w{{end}}">{{$h}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range $i, $c := .}}<td{{if lt $i $t.Texts}} class="w"{{end}}>{{$c}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}{{end}}{{define "index"}}{{template "head" .}}<ul>
{{range .Done}}<li><a href="{{.Name}}.html">{{.Title}}</a>
(<a href="{{.Name}}.csv">figures of each run</a>). {{.Text}}</li>
{{end}}</ul>
{{end}}`))

// document writes a page with the named template as its body.
func document(w io.Writer, name, title string, data any) error {
	var b strings.Builder
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	page := web.Page{Kind: web.Report, Title: title, Body: b.String()}
	return page.Write(w)
}

// HTML writes one page with pictures and tables. The page makes no request.
func (r *Report) HTML(w io.Writer) error {
	return writePage(w, report{Title: r.Info.Title, Text: r.Info.Text, Published: r.Info.Published, Tables: r.tables()},
		r.pictures(), r.options)
}

// HTML writes one page with the picture, where there is one, and the tables. The page makes no request.
func (me *Measured) HTML(w io.Writer) error {
	tables, err := me.tables()
	if err != nil {
		return err
	}
	m := &me.Measurement
	var pictures []picture
	if m.picture != nil {
		p, err := m.picture(me)
		if err != nil {
			return err
		}
		pictures = append(pictures, p)
	}
	return writePage(w, report{Title: m.Title, Text: m.Text, Published: m.Published, Tables: tables}, pictures,
		func(int) plot.Options { return plot.Options{Title: m.Title, Width: 1000} })
}

// report is what a page shows.
type report struct {
	Title, Text, Published string
	Theme                  template.HTML
	Pictures               []template.HTML
	Tables                 []table
}

func writePage(w io.Writer, r report, pictures []picture, options func(int) plot.Options) error {
	r.Theme = web.ThemeButton
	for i, p := range pictures {
		var b bytes.Buffer
		if err := p.SVG(&b, options(i)); err != nil {
			return err
		}
		r.Pictures = append(r.Pictures, template.HTML(b.String())) // package plot escapes texts
	}
	return document(w, "page", r.Title, r)
}

// WriteIndex writes index.html, which links the pages of the experiments, into the folder
// that Write has filled, and returns its path.
func WriteIndex(dir string, done []Info) (string, error) {
	data := struct {
		Title string
		Theme template.HTML
		Done  []Info
	}{"Experiments", web.ThemeButton, done}
	var b bytes.Buffer
	if err := document(&b, "index", data.Title, data); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "index.html")
	return name, os.WriteFile(name, b.Bytes(), 0o666)
}
