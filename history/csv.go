package history

import (
	"bufio"
	"bytes"
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

// Columns are the columns of a table of jobs (docs/import.md). Only id and submit must be there.
var Columns = []string{"id", "user", "name", "submit", "start", "end", "gpus", "nodes", "type",
	"requested_type", "limit", "state", "gpus_per_task", "seconds"}

// NodeColumns are the columns of a table of nodes, one row for each GPU type of a node. Only node and
// gpus must be there.
var NodeColumns = []string{"node", "type", "gpus", "cpus", "memory_mib"}

// readCSV reads a table of jobs: a CSV text whose first row names Columns, in any order.
func (l *Log) readCSV(name string, in *bufio.Reader, loc *time.Location, anyType bool) error {
	r := csv.NewReader(&shortLines{in: in})
	at := func(i int) Place {
		line, _ := r.FieldPos(i)
		return Place{File: name, Line: line}
	}
	rows := -1
	read := func() ([]string, error) {
		row, err := r.Read()
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return nil, &RowError{Place{File: name, Line: parse.Line}, parse.Err.Error()}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, &RowError{Place{File: name, Line: rows + 2}, err.Error()}
		}
		rows++
		return row, err
	}
	header, err := read()
	if errors.Is(err, io.EOF) {
		return &RowError{Place{File: name, Line: 1}, "the text is empty: the first row names the columns " +
			strings.Join(Columns, ",")}
	}
	if err != nil {
		return err
	}
	columns, needed, kind := Columns, []string{"id", "submit", "gpus"}, "table of jobs"
	if has := func(text string) bool {
		return slices.ContainsFunc(header, func(h string) bool { return strings.ToLower(strings.TrimSpace(h)) == text })
	}; has("node") && !has("id") {
		columns, needed, kind = NodeColumns, []string{"node", "gpus"}, "table of nodes"
	}
	column := map[string]int{}
	used, values := make([]bool, len(header)), make([]int, len(header))
	for i, text := range header {
		text = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")))
		if _, twice := column[text]; twice {
			return &RowError{at(i), fmt.Sprintf("column %.60q is named twice", text)}
		}
		column[text] = i
		used[i] = slices.Contains(columns, text)
	}
	for _, must := range needed {
		if _, ok := column[must]; !ok {
			return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("there is no column %s; the columns are %s", must,
				strings.Join(columns, ","))}
		}
	}
	f := File{Name: name, Kind: kind}
	for {
		row, err := read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.Rows++
		for i, v := range row {
			if v != "" {
				values[i]++
			}
		}
		get := func(name string) string {
			i, ok := column[name]
			if !ok {
				return ""
			}
			return strings.TrimSpace(row[i])
		}
		if kind == "table of nodes" {
			if fault := l.nodeOfRow(get); fault.text != "" {
				return &RowError{at(column[fault.column]), fault.column + ": " + fault.text}
			}
			continue
		}
		j, fault := jobOfRow(get, loc)
		if fault.text != "" {
			return &RowError{at(column[fault.column]), fault.column + ": " + fault.text}
		}
		j.Place = at(0)
		if _, ok := column["requested_type"]; ok {
			j.Type = get("requested_type")
		} else if anyType {
			j.Type = ""
		} else if j.Type != "" {
			l.Report.assume("without a column requested_type, a job may use only the type that its row names", j.Place)
		}
		if _, ok := column["nodes"]; !ok && j.GPUs > 0 && j.StartUs > 0 {
			l.inPool(&j, get("type"))
		}
		if err := l.addJob(&j); err != nil {
			return &RowError{at(0), err.Error()}
		}
	}
	for i, text := range header {
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

// inPool places a job of a table without the column nodes: the GPUs of each type are one pool, a node of its own. What
// is known of such a job is how many GPUs it had, so that each is a task unless gpus_per_task says otherwise.
func (l *Log) inPool(j *Job, ran string) {
	ran = cmp.Or(ran, j.Type, untyped)
	j.On = []Held{{Node: poolName(ran), Type: ran, GPUs: j.GPUs}}
	j.PerTask = cmp.Or(j.PerTask, 1)
	l.pools = true
	l.Report.assume("the table has no column nodes: the GPUs of each type are one pool, with as many as the table of "+
		"nodes has, or else as jobs held at once", j.Place)
}

func poolName(gpuType string) string { return "pool-" + strings.ToLower(gpuType) }

// joinPools makes one node of all GPUs of a type, where jobs do not say on which nodes they ran.
func (l *Log) joinPools() {
	if !l.pools {
		return
	}
	nodes := l.Nodes
	l.Nodes, l.index = nil, nil
	for i := range nodes {
		for _, g := range nodes[i].GPUs {
			l.node(poolName(g.Type)).addGPUs(g.Type, g.Count)
		}
	}
}

// shortLines reads a text whose lines have at most maxLine bytes, so that no row takes all memory.
type shortLines struct {
	in   *bufio.Reader
	line int // bytes of the line so far
}

func (s *shortLines) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		s.line = n - i - 1
	} else if s.line += n; s.line > maxLine {
		return n, fmt.Errorf("the line has more than %d bytes: it is no row of a table", maxLine)
	}
	return n, err
}

// cellFault says what is wrong with a column of a row; a text of "" means nothing.
type cellFault struct{ column, text string }

// nodeOfRow adds the GPUs of one row of a table of nodes.
func (l *Log) nodeOfRow(get func(string) string) cellFault {
	name := get("node")
	if name == "" {
		return cellFault{"node", "is empty"}
	}
	gpus, err := parseCount(get("gpus"))
	if err != nil || gpus < 1 || gpus > hare.MaxGPUs {
		return cellFault{"gpus", fmt.Sprintf("%.40q is not a number of GPUs from 1 to %d", get("gpus"), hare.MaxGPUs)}
	}
	n := l.node(name)
	if text := get("cpus"); text != "" {
		cpus, err := strconv.ParseFloat(text, 64)
		if err != nil || !(cpus >= 0 && cpus < 1e9) {
			return cellFault{"cpus", fmt.Sprintf("%.40q is not a number of CPUs", text)}
		}
		n.CPUMilli = int64(math.Round(cpus * 1000))
	}
	if text := get("memory_mib"); text != "" {
		if n.MemoryMiB, err = parseCount(text); err != nil {
			return cellFault{"memory_mib", err.Error()}
		}
	}
	n.addGPUs(cmp.Or(get("type"), untyped), int(gpus))
	return cellFault{}
}

// jobOfRow reads one row of a table of jobs.
func jobOfRow(get func(string) string, loc *time.Location) (j Job, fault cellFault) {
	j = Job{ID: get("id"), User: get("user"), Name: get("name"), Type: get("type")}
	if j.ID == "" {
		return j, cellFault{"id", "is empty: every job needs a name of its own"}
	}
	for _, c := range []struct {
		column string
		to     *int64
	}{{"submit", &j.SubmitUs}, {"start", &j.StartUs}, {"end", &j.EndUs}} {
		text := get(c.column)
		var err error
		if *c.to, err = parseTime(text, loc); err != nil {
			return j, cellFault{c.column, err.Error()}
		}
		if text != "" && !strings.ContainsAny(text, "-T:") {
			*c.to++ // seconds are a microsecond later, so that second 0 is a time
		}
	}
	j.EligibleUs = j.SubmitUs
	switch {
	case j.SubmitUs == 0:
		return j, cellFault{"submit", "is empty: every job needs the time at which it was submitted"}
	case j.StartUs > 0 && j.StartUs < j.SubmitUs:
		return j, cellFault{"start", "is before submit"}
	case j.EndUs > 0 && j.EndUs < j.StartUs:
		return j, cellFault{"end", "is before start"}
	}
	var err error
	if j.LimitUs, err = parseLimitSeconds(get("limit")); err != nil {
		return j, cellFault{"limit", err.Error()}
	}
	if j.GPUs, err = parseCount(get("gpus")); err != nil || j.GPUs > hare.MaxGPUs {
		return j, cellFault{"gpus", fmt.Sprintf("%.40q is not a number of GPUs up to %d", get("gpus"), hare.MaxGPUs)}
	}
	if text := get("gpus_per_task"); text != "" {
		if j.PerTask, err = parseCount(text); err != nil || j.PerTask < 1 || j.GPUs%j.PerTask != 0 {
			return j, cellFault{"gpus_per_task", fmt.Sprintf("%.40q is not a number that divides the GPUs of the job", text)}
		}
	}
	if text := get("seconds"); text != "" {
		if j.Seconds, err = parseSpeeds(commentPrefix + strings.TrimPrefix(text, commentPrefix)); err != nil {
			return j, cellFault{"seconds", err.Error()}
		}
	}
	switch text := strings.ToLower(get("state")); {
	case text != "":
		i := slices.Index(stateNames[:], text)
		if i < 0 {
			return j, cellFault{"state", fmt.Sprintf("%.40q is none of %s", text, strings.Join(stateNames[:], ", "))}
		}
		j.State = State(i)
	case j.EndUs > 0:
		j.State = Completed
	case j.StartUs > 0:
		j.State = Running
	default:
		j.State = Pending
	}
	if text := get("nodes"); text != "" {
		if j.On, err = heldOn(text, j.GPUs); err != nil {
			return j, cellFault{"nodes", err.Error()}
		}
		names := map[string]bool{}
		for i := range j.On {
			j.On[i].Type = j.Type
			names[j.On[i].Node] = true
		}
		j.Nodes = int64(len(names))
	}
	return j, cellFault{}
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
// "a-0/0 a-0/1 a-1/0", with blanks between them.
func heldOn(text string, gpus int64) (on []Held, err error) {
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
