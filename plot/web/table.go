package web

// Table is a table of a page of kind Report. Its first columns, Words of them, are words, the others figures.
type Table struct {
	Words int
	Heads []string
	Rows  [][]string
}

// TableTemplate defines "table", which writes a Table, for the templates of pages of kind Report.
const TableTemplate = `{{define "table"}}<div class="wide" tabindex="0"><table>
<thead><tr>{{range $i, $h := .Heads}}<th{{if lt $i $.Words}} class="w"{{end}}>{{$h}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range $i, $c := .}}<td{{if lt $i $.Words}} class="w"{{end}}>{{$c}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}`
