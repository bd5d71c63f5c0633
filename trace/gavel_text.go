package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// nativeForms are the fields of a line of Gavel's own traces, of today (10) and before (7, 9), and of Shockwave's (11,
// 12), by scheduler/utils.py of both (Gavel c4fa400, Shockwave 8a44f4a). Fields that are read have the name of the CSV
// column.
var nativeForms = []nativeForm{
	{"gavel", strings.Fields("job_type command num_steps_arg needs_data_dir total_steps arrival_s scale_factor")},
	{"gavel", strings.Fields("job_type command num_steps_arg needs_data_dir total_steps scale_factor priority_weight " +
		"slo arrival_s")},
	{"gavel", strings.Fields("job_type command working_directory num_steps_arg needs_data_dir total_steps scale_factor " +
		"priority_weight slo arrival_s")},
	{"shockwave", strings.Fields("job_type command working_directory num_steps_arg needs_data_dir total_steps " +
		"scale_factor batch_mode priority_weight slo arrival_s")},
	{"shockwave", strings.Fields("job_type command working_directory num_steps_arg needs_data_dir total_steps " +
		"scale_factor batch_mode priority_weight slo stated_duration_s arrival_s")},
}

// nativeForm is the fields of a line without a header.
type nativeForm struct {
	format  string
	columns []string
}

// nativeOf finds the form of a line by the number of its fields.
func nativeOf(line []byte) (nativeForm, bool) {
	fields := bytes.Count(line, []byte("\t")) + 1
	for _, f := range nativeForms {
		if fields == len(f.columns) {
			return f, true
		}
	}
	return nativeForm{}, false
}

// newJobs opens a trace in Gavel's terms: either a CSV text whose header names columns,
// or one of nativeForms, which have fields between tabs, no header, and jobs numbered
// from 0.
func newJobs(src Source) (*table, error) {
	if src.R == nil {
		return newTable(src)
	}
	r := bufio.NewReaderSize(src.R, 1<<16)
	head, err := r.Peek(1 << 15)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	src.R = r
	line, _, _ := bytes.Cut(head, []byte("\n"))
	tabs := bytes.Count(line, []byte("\t"))
	if tabs == 0 {
		return newTable(src, "job_id", "arrival_s", "job_type", "total_steps", "scale_factor", "priority_weight")
	}
	if src.Name == "" {
		src.Name = "input"
	}
	form, ok := nativeOf(line)
	if !ok {
		return nil, &RowError{src.Name, 1, 1, fmt.Sprintf("%d fields between tabs; a trace of Gavel has 10 (older ones 7 "+
			"or 9), one of Shockwave 11 or 12", tabs+1)}
	}
	t := &table{file: src.Name, column: map[string]int{}, used: map[int]bool{}, names: form.columns,
		values: make([]int, len(form.columns))}
	for i, name := range form.columns {
		t.column[name] = i
	}
	t.column["job_id"] = len(form.columns)
	if _, ok := t.column["priority_weight"]; !ok {
		t.column["priority_weight"] = len(form.columns) + 1
	}
	t.derive = t.nativeRow
	t.limit = &io.LimitedReader{R: src.R, N: maxBytes + 1}
	t.r = csv.NewReader(t.limit)
	t.r.Comma, t.r.LazyQuotes, t.r.ReuseRecord, t.r.FieldsPerRecord = '\t', true, true, len(form.columns)
	return t, nil
}

// nativeRow numbers the job, gives a weight of 1 where a line has none, and empties an SLO that says that there is
// none.
func (t *table) nativeRow() {
	if slo, ok := t.column["slo"]; ok && strings.HasPrefix(t.row[slo], "-") {
		t.row[slo] = ""
	}
	t.row = append(t.row, strconv.Itoa(t.rows), "1")
	t.rows++
}
