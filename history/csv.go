package history

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// Columns are the columns of a table of jobs (docs/use/import.md). Only id, submit and gpus must be there.
var Columns = []string{"id", "user", "account", "name", "submit", "start", "end", "gpus", "nodes", "type",
	"requested_type", "limit", "state", "gpus_per_task", "node_count", "cpus", "memory_mib", "seconds"}

// neededColumns are those of Columns that must be there.
var neededColumns = []string{"id", "submit", "gpus"}

// NodeColumns are the columns of a table of nodes, one row for each GPU type of a node. Only node and
// gpus must be there.
var NodeColumns = []string{"node", "type", "gpus", "cpus", "memory_mib"}

// Kinds of tables with the columns above.
const tableOfJobs, tableOfNodes = "table of jobs", "table of nodes"

// tableForms are the tables whose columns have other names than Columns, with their names for these; the first
// whose columns are all there counts. A column that a form needs not have stands behind the others.
var tableForms = []tableForm{
	{name: "acme", kind: "table of jobs (Acme)", needed: 6, columns: []tableColumn{{"job_id", "id"},
		{"gpu_num", "gpus"}, {"submit_time", "submit"}, {"start_time", "start"}, {"end_time", "end"}, {"type", "name"},
		{"user", "user"}, {"node_num", "node_count"}, {"cpu_num", "cpus"}, {"state", "state"}}},
	{name: "helios", kind: "table of jobs (Helios)", needed: 6, columns: []tableColumn{{"job_id", "id"},
		{"gpu_num", "gpus"}, {"submit_time", "submit"}, {"start_time", "start"}, {"end_time", "end"}, {"vc", "account"},
		{"user", "user"}, {"node_num", "node_count"}, {"cpu_num", "cpus"}, {"state", "state"}}},
	{name: "history", kind: tableOfJobs, needed: len(neededColumns),
		columns: asNamed(neededColumns, Columns)},
	{name: "history", kind: tableOfNodes, needed: 2, columns: asNamed([]string{"node", "gpus"}, NodeColumns)},
}

// tableForm is a form of tables; the first needed columns must be there.
type tableForm struct {
	name, kind string
	needed     int
	columns    []tableColumn
}

// tableColumn is a column as a form names it, and its name among Columns or NodeColumns.
type tableColumn struct{ theirs, ours string }

// asNamed lists columns that have their own names, those that are needed first; node_num and cpu_num, as public
// traces have them, are read too.
func asNamed(needed, all []string) (out []tableColumn) {
	for _, name := range slices.Concat(needed, all) {
		if !slices.Contains(out, tableColumn{name, name}) {
			out = append(out, tableColumn{name, name})
		}
	}
	if slices.Contains(all, "node_count") {
		out = append(out, tableColumn{"node_num", "node_count"}, tableColumn{"cpu_num", "cpus"})
	}
	return out
}

// otherNames are names that other programs give to Columns. A table must rename them: what a program means by such a
// name, nobody can tell for all programs.
var otherNames = map[string]string{"job_id": "id", "jobid": "id", "job": "id", "username": "user", "user_name": "user",
	"job_name": "name", "jobname": "name", "submit_time": "submit", "submitted": "submit", "submission_time": "submit",
	"start_time": "start", "started": "start", "end_time": "end", "ended": "end", "finish_time": "end",
	"num_gpus": "gpus", "n_gpus": "gpus", "ngpus": "gpus", "gpu_num": "gpus", "gpu_count": "gpus", "node_list": "nodes",
	"nodelist": "nodes", "gpu_type": "type", "gputype": "type", "time_limit": "limit", "timelimit": "limit"}

// renames says which columns of a table of jobs must be called otherwise to be read, as "rename num_gpus, gpu_type to
// gpus, type", of those that become one of columns; "" for none. enough says that the table is one of jobs then.
func renames(header, columns []string) (hint string, enough bool) {
	var theirs, ours []string
	for _, name := range header {
		to := otherNames[name]
		if slices.Contains(columns, to) && !slices.Contains(slices.Concat(header, ours), to) {
			theirs, ours = append(theirs, name), append(ours, to)
		}
	}
	if len(ours) == 0 {
		return "", false
	}
	form, _ := formOf(slices.Concat(header, ours))
	return "rename " + strings.Join(theirs, ", ") + " to " + strings.Join(ours, ", "),
		form != nil && form.kind == tableOfJobs
}

// missing lists the columns that the form needs and a header does not have.
func (f *tableForm) missing(header []string) (names []string) {
	for _, c := range f.columns[:f.needed] {
		if !slices.Contains(header, c.theirs) {
			names = append(names, c.theirs)
		}
	}
	return names
}

// formOf finds the form of a table by its header.
func formOf(header []string) (*tableForm, bool) {
	for i := range tableForms {
		if f := &tableForms[i]; len(f.missing(header)) == 0 {
			return f, true
		}
	}
	return nil, false
}

// headerOf returns the names of columns as forms have them.
func headerOf(row []string) []string {
	out := make([]string, len(row))
	for i, name := range row {
		out[i] = strings.ToLower(strings.TrimSpace(name))
	}
	return out
}

// readCSV reads a table of jobs or nodes: a CSV text whose first row names columns, in any order.
func (l *tableReader) readCSV(name string, in *bufio.Reader, loc *time.Location, anyType bool) error {
	t := &csvTable{file: name, lines: table{file: name, in: in}}
	first, err := t.next()
	if errors.Is(err, io.EOF) {
		return &RowError{Place{File: name, Line: 1}, "the text is empty: the first row names the columns " +
			strings.Join(Columns[:8], ",") + ",…"}
	}
	if err != nil {
		return err
	}
	header := headerOf(first)
	form, known := formOf(header)
	if !known {
		form = &tableForms[len(tableForms)-2]
		if slices.Contains(header, "node") && !slices.Contains(header, "id") {
			form = &tableForms[len(tableForms)-1]
		}
		hint := "hare import --list-formats names other tables"
		if names, _ := renames(header, Columns); names != "" && form.kind == tableOfJobs {
			hint = names
		}
		return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("there is no column %s: a %s needs %s (%s)",
			form.missing(header)[0], form.kind, form.needs(), hint)}
	}
	column := map[string]int{}
	for i, text := range header {
		if slices.Contains(header[:i], text) {
			return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("column %.60q is named twice", text)}
		}
		for _, c := range form.columns {
			if _, twice := column[c.ours]; c.theirs == text && !twice {
				column[c.ours] = i
			}
		}
	}
	if names, _ := renames(header, Columns); names != "" && form.kind == tableOfJobs {
		l.Report.Warnings = append(l.Report.Warnings, fmt.Sprintf("%s:1: columns of other names are not read: %s", name,
			names))
	}
	f := File{Name: name, Kind: form.kind}
	jobs, nodes, aside := len(l.Jobs), len(l.Nodes), len(l.Report.SetAside)
	used, values := make([]bool, len(header)), make([]int, len(header))
	for _, i := range column {
		used[i] = true
	}
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.Rows++
		if len(row) != len(header) {
			l.Report.setAside("a row with another number of fields than the first: it is left out", t.place(),
				strings.Join(row, ","))
			continue
		}
		for i, v := range row {
			if v != "" {
				values[i]++
			}
		}
		r := tableRow{table: t, column: column, row: row, report: l.Report}
		if form.kind == tableOfNodes {
			l.nodeOfRow(&r)
			continue
		}
		j, ok := jobOfRow(&r, loc)
		if !ok {
			continue
		}
		ran := j.Type
		if r.has("requested_type") {
			j.Type = r.get("requested_type")
		} else if anyType {
			j.Type = ""
		} else if j.Type != "" {
			l.Report.assume("without a column requested_type, a job may use only the type that its row names", j.Place)
		}
		if err := l.addJob(&j); err != nil {
			return &RowError{t.place(), err.Error()}
		}
		if len(j.On) == 0 && j.GPUs > 0 && j.StartUs > 0 && (!r.has("nodes") || r.get("nodes") == "") {
			l.unplaced = append(l.unplaced, unplacedJob{len(l.Jobs) - 1, l.keep(ran), !r.has("nodes")})
		}
	}
	if unread := l.Report.SetAside[aside:]; len(unread) > 0 && len(l.Jobs) == jobs && len(l.Nodes) == nodes {
		why := unread[max(0, slices.IndexFunc(unread, func(n Note) bool { return strings.Contains(n.What, "left out") }))]
		return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("no row can be read: %s (%s)", why.What, why.First)}
	}
	for i, text := range first {
		c := trace.Column{Name: text, Values: values[i]}
		if used[i] {
			f.Used = append(f.Used, c)
		} else {
			f.Ignored = append(f.Ignored, c)
		}
	}
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// needs lists the columns that the form must have.
func (f *tableForm) needs() string {
	names := make([]string, f.needed)
	for i := range names {
		names[i] = f.columns[i].theirs
	}
	return strings.Join(names, ", ")
}

// Delimiter tells by the first line of a table what stands between its fields: a comma, a semicolon, as spreadsheets
// write where a comma stands in numbers, or a tab.
func Delimiter(line string) rune {
	count := map[rune]int{}
	quoted := false
	for _, c := range line {
		if c == '"' {
			quoted = !quoted
		} else if !quoted {
			count[c]++
		}
	}
	out := ','
	for _, c := range ";\t" {
		if count[c] > count[out] {
			out = c
		}
	}
	return out
}

// csvTable reads the rows of a CSV text so that a row that is no CSV costs no other row.
type csvTable struct {
	file  string
	lines table
	comma rune     // between fields; the first line tells it
	ahead []string // lines that were read to find the end of a quoted field
	line  int      // of the row, from 1
	read  int      // lines that rows had
}

// TableRows calls visit for each row of a CSV text, and with what stands between its fields, as Read reads such texts:
// a line that is no CSV is a row of one field. It returns the first error of visit, or of the text.
func TableRows(name string, in io.Reader, visit func(row []string, comma rune) error) error {
	t := &csvTable{file: name, lines: table{file: name, in: bufio.NewReader(in)}}
	for {
		row, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(row, t.comma)
		}
		if err != nil {
			return err
		}
	}
}

// maxQuotedLines limits the lines of one quoted field.
const maxQuotedLines = 64

func (t *csvTable) place() Place { return Place{File: t.file, Line: max(1, t.line)} }

// nextLine returns a line by its number ahead.
func (t *csvTable) nextLine(ahead int) (string, error) {
	for len(t.ahead) <= ahead {
		line, err := t.lines.readLine()
		if errors.Is(err, errLong) && t.read+len(t.ahead) > 0 {
			line, err = "(a line of more than "+itoa(maxLine)+" bytes)", nil // a row of one field, which no table has
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", &RowError{Place{File: t.file, Line: t.read + len(t.ahead) + 1}, err.Error()}
		}
		if err != nil {
			return "", err
		}
		t.ahead = append(t.ahead, line)
	}
	return t.ahead[ahead], nil
}

// next reads the next row. A line with quotes that have no end within maxQuotedLines is a row of one field.
func (t *csvTable) next() ([]string, error) {
	for {
		first, err := t.nextLine(0)
		if err != nil {
			return nil, err
		}
		if first != "" {
			break
		}
		t.ahead, t.read = t.ahead[1:], t.read+1
	}
	text := t.ahead[0]
	t.line = t.read + 1
	if t.comma == 0 {
		t.comma = Delimiter(text)
	}
	for n := 1; ; n++ {
		r := csv.NewReader(strings.NewReader(text))
		r.Comma = t.comma
		row, err := r.Read()
		if err == nil || !strings.Contains(text, `"`) || n == maxQuotedLines {
			if err != nil {
				n, row = 1, []string{t.ahead[0]}
			}
			t.ahead, t.read = t.ahead[n:], t.read+n
			return row, nil
		}
		line, err := t.nextLine(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err != nil {
			row = []string{t.ahead[0]}
			t.ahead, t.read = t.ahead[1:], t.read+1
			return row, nil
		}
		text += "\n" + line
	}
}

// tableRow is one row of a table.
type tableRow struct {
	table  *csvTable
	column map[string]int
	row    []string
	report *Report
}

func (r *tableRow) has(name string) bool {
	_, ok := r.column[name]
	return ok
}

// get returns a field; what programs write for nothing is empty.
func (r *tableRow) get(name string) string {
	i, ok := r.column[name]
	if !ok {
		return ""
	}
	switch text := strings.TrimSpace(r.row[i]); text {
	case "nan", "NaN", "NaT", "None", "NULL", "null", "N/A":
		return ""
	default:
		return text
	}
}

// decimal returns a field with a number; a comma of a table without commas between its fields is a point.
func (r *tableRow) decimal(name string) string {
	text := r.get(name)
	if r.table.comma != ',' && strings.Count(text, ",") == 1 && !strings.Contains(text, ".") {
		text = strings.Replace(text, ",", ".", 1)
	}
	return text
}

// aside sets the value of a field aside and says what that costs.
func (r *tableRow) aside(name, cost string) {
	r.report.setAside(name+": "+cost, r.table.place(), r.get(name))
}

// number reads a field with a number from 0 to most; programs that write tables may add .0.
func (r *tableRow) number(name string, most int64, cost string) int64 {
	text := strings.TrimSuffix(r.decimal(name), ".0")
	if text == "" {
		return 0
	}
	n, err := parseCount(text)
	if err != nil || n > most {
		r.aside(name, cost)
		return 0
	}
	return n
}

// nodeOfRow adds the GPUs of one row of a table of nodes.
func (l *tableReader) nodeOfRow(r *tableRow) {
	name := r.get("node")
	gpus := r.number("gpus", hare.MaxGPUs, "the node counts as one without GPUs")
	if name == "" {
		r.aside("node", "the node has no name and is left out")
		return
	}
	n := l.node(l.keep(name))
	if text := r.get("cpus"); text != "" {
		cpus, err := strconv.ParseFloat(text, 64)
		if err != nil || !(cpus >= 0 && cpus < 1e9) {
			r.aside("cpus", "the node counts as one without a limit of CPUs")
		} else {
			n.CPUMilli = int64(math.Round(cpus * 1000))
		}
	}
	n.MemoryMiB = r.number("memory_mib", hare.MaxPerTask/1000, "the node counts as one without a limit of memory")
	if gpus > 0 {
		n.addGPUs(l.keep(cmp.Or(r.get("type"), untyped)), int(gpus))
	}
}

// jobOfRow reads one row of a table of jobs; ok says that the row tells enough for a job.
func jobOfRow(r *tableRow, loc *time.Location) (j Job, ok bool) {
	j = Job{ID: r.get("id"), User: r.get("user"), Account: r.get("account"), Name: r.get("name"), Type: r.get("type"),
		Place: r.table.place()}
	if j.ID == "" {
		r.aside("id", "the job has no name and is left out")
		return j, false
	}
	for _, c := range []struct {
		column, cost string
		to           *int64
	}{{"start", "the job counts as one that never started", &j.StartUs},
		{"end", "counts as not told", &j.EndUs},
		{"submit", "the job counts as submitted when it started", &j.SubmitUs}} {
		text := r.decimal(c.column)
		var err error
		if *c.to, err = parseTime(text, loc); err != nil {
			if c.to == &j.SubmitUs && j.StartUs == 0 {
				c.cost = "the job has no time and is left out"
			}
			r.aside(c.column, c.cost+": write times as 2026-11-22T22:53:01 or seconds since 1970")
			*c.to = 0
			continue
		}
		if text != "" && !strings.ContainsAny(text, "-T:") {
			*c.to++ // seconds are a microsecond later, so that second 0 is a time
		}
	}
	if j.SubmitUs == 0 && j.StartUs > 0 {
		j.SubmitUs = j.StartUs
	}
	j.EligibleUs = j.SubmitUs
	switch {
	case j.SubmitUs == 0:
		if r.get("submit") == "" {
			r.aside("submit", "the job has no time and is left out")
		}
		return j, false
	case j.EndUs > 0 && j.StartUs > 0 && j.EndUs < j.StartUs:
		r.aside("end", "is before the start: counts as not told")
		j.EndUs = 0
	}
	var err error
	if j.LimitUs, err = parseLimitSeconds(r.get("limit")); err != nil {
		r.aside("limit", "the job counts as one without a limit")
	}
	before := r.report.Unread()
	if x, err := strconv.ParseFloat(r.decimal("gpus"), 64); err == nil && x > 0 && x != math.Trunc(x) {
		r.aside("gpus", "a table does not tell who shares a GPU: the job is left out")
		return j, false
	}
	j.GPUs = r.number("gpus", hare.MaxGPUs, "how many GPUs the job had is not known: it is left out")
	if r.report.Unread() > before {
		return j, false
	}
	j.PerTask = r.number("gpus_per_task", hare.MaxGPUs, "the job's GPUs are tasks as if the column were empty")
	if j.PerTask > 0 && j.GPUs%j.PerTask != 0 {
		r.aside("gpus_per_task", "the job's GPUs are tasks as if the column were empty")
		j.PerTask = 0
	}
	j.Nodes = r.number("node_count", hare.MaxGPUs, "on how many nodes the job ran is not known")
	j.CPUMilli = 1000 * r.number("cpus", 1e9, "the job counts as one that had no CPUs")
	j.MemoryMiB = r.number("memory_mib", hare.MaxPerTask/1000, "the job counts as one that had no memory")
	if text := r.get("seconds"); text != "" {
		if j.Seconds, err = parseSpeeds(commentPrefix + strings.TrimPrefix(text, commentPrefix)); err != nil {
			r.aside("seconds", "the job's times on other types are assumed")
			j.Seconds = nil
		}
	}
	j.noStart, j.noEnd = !r.has("start"), !r.has("end")
	j.State = r.state(&j)
	if text := r.get("nodes"); text != "" {
		if j.On, err = heldOn(text, j.GPUs); err != nil {
			r.aside("nodes", "where the job ran is not known")
			j.On = nil
		}
		names := map[string]bool{}
		for i := range j.On {
			j.On[i].Type = j.Type
			names[j.On[i].Node] = true
		}
		j.Nodes = int64(len(names))
	}
	return j, true
}

// state reads the state of a job: by its word, else by its times.
func (r *tableRow) state(j *Job) State {
	byTimes := Pending
	switch {
	case j.EndUs > 0:
		byTimes = Completed
	case j.StartUs > 0:
		byTimes = Running
	}
	text := strings.ToLower(r.get("state"))
	if text == "" {
		return byTimes
	}
	if i := slices.Index(stateNames[:], text); i >= 0 {
		return State(i)
	}
	r.aside("state", "the job's times say how it stands")
	return byTimes
}

// parseLimitSeconds reads decimal seconds, or a limit with colons.
func parseLimitSeconds(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if strings.ContainsAny(text, ":-") {
		return parseLimit(text)
	}
	return parseSeconds(text)
}

// heldOn reads the nodes of a job: names in Slurm's form, or names with numbers of GPUs such as
// "a-0/0 a-0/1 a-1/0", with blanks or commas between them.
func heldOn(text string, gpus int64) (on []Held, err error) {
	if strings.Contains(text, "/") {
		text = strings.ReplaceAll(text, ",", " ")
	}
	for _, word := range strings.Fields(text) {
		node, number, numbered := strings.Cut(word, "/")
		if !numbered {
			names, err := expandHosts(word)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				on = append(on, Held{Node: name})
			}
			continue
		}
		n, err := strconv.ParseUint(number, 10, 20)
		if err != nil {
			return nil, fmt.Errorf("%.40q is not NODE/GPU", word)
		}
		i := slices.IndexFunc(on, func(h Held) bool { return h.Node == node })
		if i < 0 {
			i = len(on)
			on = append(on, Held{Node: node})
		}
		on[i].GPUs++
		on[i].Numbers = append(on[i].Numbers, int(n))
	}
	slices.SortFunc(on, func(a, b Held) int { return strings.Compare(a.Node, b.Node) })
	if n := int64(len(on)); n > 0 && gpus%n == 0 {
		for i := range on {
			if on[i].GPUs == 0 {
				on[i].GPUs = gpus / n
			}
		}
	}
	return on, nil
}
