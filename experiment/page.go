package experiment

import (
	"bytes"
	"html/template"
	"io"
	"os"
	"path/filepath"
)

var pages = template.Must(template.New("").Parse(`{{define "head"}}<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.}}</title>
<style>body{font:15px/1.45 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em}div{overflow-x:auto}table{border-collapse:collapse;font-size:13px}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}th{white-space:normal}.w{text-align:left}svg{width:100%;height:auto}caption{text-align:left;padding:1em 0 .5em}</style>
<h1>{{.}}</h1>
{{end}}{{define "page"}}{{template "head" .Info.Title}}<p>{{.Info.Text}}</p><p>{{.Info.Published}}</p>
{{range .Pictures}}{{.}}
{{end}}{{range .Tables}}{{$t := .}}<div><table><caption>{{.Caption}}</caption><tr>{{range $i, $h := .Heads}}<th{{if lt $i $t.Texts}} class="w"{{end}}>{{$h}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range $i, $c := .}}<td{{if lt $i $t.Texts}} class="w"{{end}}>{{$c}}</td>{{end}}</tr>
{{end}}</table></div>
{{end}}</html>
{{end}}{{define "index"}}{{template "head" "Experiments"}}<ul>
{{range .}}<li><a href="{{.Name}}.html">{{.Title}}</a> (<a href="{{.Name}}.csv">figures of each run</a>). {{.Text}}</li>
{{end}}</ul>
</html>
{{end}}`))

// HTML writes one page with pictures and tables, which makes no request.
func (r *Report) HTML(w io.Writer) error {
	data := struct {
		Info     Info
		Pictures []template.HTML
		Tables   []table
	}{Info: r.Info, Tables: r.tables()}
	for i, p := range r.pictures() {
		var b bytes.Buffer
		if err := p.SVG(&b, r.options(i)); err != nil {
			return err
		}
		data.Pictures = append(data.Pictures, template.HTML(b.String())) // our own, its texts escaped
	}
	return pages.ExecuteTemplate(w, "page", data)
}

// WriteIndex puts index.html into a folder that holds what Write put there for
// each of the experiments, and returns its path.
func WriteIndex(dir string, done []Info) (string, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "index", done); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "index.html")
	return name, os.WriteFile(name, b.Bytes(), 0o666)
}
