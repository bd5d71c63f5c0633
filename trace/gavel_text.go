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

// nativeColumns are the fields of a line of Gavel's own traces (scheduler/utils.py,
// parse_trace, commit c4fa400). Fields that are read have the name of the CSV column.
var nativeColumns = []string{
	"job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor",
	"priority_weight", "slo", "arrival_s",
}

// newJobs opens a trace in Gavel's terms: either a CSV text whose header names columns,
// or Gavel's own form, which has ten fields between tabs, no header, and jobs numbered
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
	if tabs+1 != len(nativeColumns) {
		return nil, &RowError{src.Name, 1, 1, fmt.Sprintf("%d fields between tabs; a trace of Gavel has %d: %s",
			tabs+1,
			len(nativeColumns), strings.Join(nativeColumns, ", "))}
	}
	t := &table{file: src.Name, column: map[string]int{"job_id": len(nativeColumns)}, native: true,
		used: map[int]bool{}, names: nativeColumns, values: make([]int, len(nativeColumns))}
	for i, name := range nativeColumns {
		t.column[name] = i
	}
	t.limit = &io.LimitedReader{R: src.R, N: maxBytes + 1}
	t.r = csv.NewReader(t.limit)
	t.r.Comma, t.r.LazyQuotes, t.r.ReuseRecord, t.r.FieldsPerRecord = '\t', true, true, len(nativeColumns)
	return t, nil
}

// nativeRow numbers the job, and empties an SLO that says that there is none.
func (t *table) nativeRow() {
	slo := t.column["slo"]
	if strings.HasPrefix(t.row[slo], "-") {
		t.row[slo] = ""
	}
	t.row = append(t.row, strconv.Itoa(t.rows))
	t.rows++
}
