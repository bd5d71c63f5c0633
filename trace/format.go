package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	hare "github.com/hare-sched/hare"
)

// formatColumns tell a format by the header of its traces: the first entry whose columns
// are all present is the format. A Shockwave trace also has the columns of Gavel.
var formatColumns = []struct {
	format  string
	columns []string
}{
	{"shockwave", []string{"job_id", "arrival_s", "job_type", "total_steps", "scale_factor", "batch_mode"}},
	{"gavel", []string{"job_id", "arrival_s", "job_type", "total_steps", "scale_factor"}},
	{"openb", []string{"pod", "arrival_s", "num_gpu"}},
	{"openb", []string{"name", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time", "scheduled_time"}},
	{"pollux", []string{"name", "time", "application", "num_replicas"}},
	{"philly", []string{"arrival_s", "duration_s", "num_gpus"}},
}

// CheckFormat returns an error that names the nearest format if there is no such format.
func CheckFormat(name string) error {
	if slices.Contains(Formats(), name) {
		return nil
	}
	hint := "."
	if best := hare.Nearest(name, Formats()); best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	return fmt.Errorf("trace: unknown format %.60q%s The formats are %s", name, hint, strings.Join(Formats(), ", "))
}

// DetectFormat reads the first line of a trace and returns its format: by its columns,
// or by the number of fields between tabs, in the forms of Gavel and Shockwave.
func DetectFormat(src Source) (string, error) {
	if src.Name == "" {
		src.Name = "input"
	}
	head, err := bufio.NewReaderSize(src.R, 1<<16).ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%s: %w", src.Name, err)
	}
	if f, ok := nativeOf(head); ok {
		return f.format, nil
	}
	have, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(head, []byte("\ufeff")))).Read()
	if err == nil {
		for _, f := range formatColumns {
			if !slices.ContainsFunc(f.columns, func(c string) bool { return !slices.Contains(have, c) }) {
				return f.format, nil
			}
		}
	}
	return "", &RowError{src.Name, 1, 1, "the columns tell no format: say which of " + strings.Join(Formats(), ", ") +
		" it is; hare import history reads a table of jobs"}
}

// Near lists the formats to which the names of columns come nearest, with what they lack, as "philly (lacks
// num_gpus)"; the number is how many columns each lacks.
func Near(columns []string) (formats []string, lacking int) {
	lacking = 3
	for _, f := range formatColumns {
		missing := slices.DeleteFunc(slices.Clone(f.columns), func(c string) bool { return slices.Contains(columns, c) })
		if len(missing) > lacking || len(missing) == len(f.columns) {
			continue
		}
		if len(missing) < lacking {
			formats, lacking = nil, len(missing)
		}
		formats = append(formats, fmt.Sprintf("%s (lacks %s)", f.format, strings.Join(missing, ", ")))
	}
	return formats, lacking
}
