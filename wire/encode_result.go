package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hare-sched/hare"
)

// EncodeResult writes the result/v1 form of a result as one object, with one lane
// on each line. Options.Detail selects how much of the schedule is written.
func EncodeResult(w io.Writer, r *hare.Result) error {
	b := bufio.NewWriter(w)
	if err := encodeHead(b, r); err != nil {
		return err
	}
	if r.Schedule != nil && r.Options.Detail != "none" && r.Options.Detail != "jobs" {
		line := append([]byte(nil), ",\n \"schedule\":{\"jobs\":["...)
		line = appendJobIDs(line, r.Schedule.Jobs)
		line = append(line, "],\"lanes\":["...)
		for i := range r.Schedule.Lanes {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(line, "\n  "...)
			line = appendLane(line, &r.Schedule.Lanes[i])
			if _, err := b.Write(line); err != nil {
				return err
			}
			line = line[:0]
		}
		if _, err := b.Write(append(line, "]}"...)); err != nil {
			return err
		}
	}
	if _, err := b.WriteString("}\n"); err != nil {
		return err
	}
	return b.Flush()
}

// EncodeResultLines writes everything except the lanes on the first line, and then
// one lane on each line.
func EncodeResultLines(w io.Writer, r *hare.Result) error {
	b := bufio.NewWriter(w)
	if err := encodeHead(b, r); err != nil {
		return err
	}
	lanes := r.Schedule != nil && r.Options.Detail != "none" && r.Options.Detail != "jobs"
	if lanes {
		line := append([]byte(nil), `,"schedule":{"jobs":[`...)
		line = appendJobIDs(line, r.Schedule.Jobs)
		if _, err := b.Write(append(line, `],"lanes":[]}`...)); err != nil {
			return err
		}
	}
	if _, err := b.WriteString("}\n"); err != nil {
		return err
	}
	if lanes {
		for i := range r.Schedule.Lanes {
			if _, err := b.Write(append(appendLane(nil, &r.Schedule.Lanes[i]), '\n')); err != nil {
				return err
			}
		}
	}
	return b.Flush()
}

func appendJobIDs(b []byte, ids []string) []byte {
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, id)
	}
	return b
}

// These lists hold the fields before the schedule in the order in which they are
// written.
var (
	headFields = []string{
		"hare", "instance_sha256", "version", "seed", "status", "termination", "reproducible", "degraded", "estimated",
		"objective", "value", "bound", "constant", "gap", "reasons", "options", "engine", "metrics", "gap_report", "timing",
	}
	partFields = []string{"jobs", "certificate", "replan", "tasks"}
)

// Encodable returns an error for a result that cannot be encoded, because its options ask for
// more tasks than a document lists.
func Encodable(r *hare.Result) error {
	if r.Options.Detail != "tasks" || r.Schedule == nil {
		return nil
	}
	tasks := int64(len(r.TaskList))
	if r.Metrics != nil {
		tasks = max(tasks, r.Metrics.Tasks)
	}
	if tasks > hare.MaxTaskObjects {
		return &hare.InvalidError{Pointer: "/options/detail", Code: "too_many_tasks",
			Detail: fmt.Sprintf("detail tasks lists up to %d tasks, this schedule has %d: use lanes",
				hare.MaxTaskObjects, tasks)}
	}
	return nil
}

// encodeHead writes the object up to the schedule on one line.
func encodeHead(b *bufio.Writer, r *hare.Result) error {
	if err := Encodable(r); err != nil {
		return err
	}
	doc := &resultDoc{Result: r}
	var head bytes.Buffer
	json.HTMLEscape(&head, resultTable.appendFields(nil, doc, headFields...)) // HTML pages may show texts of a result
	line := head.Bytes()
	if parts := resultTable.appendFields(nil, doc, partFields...); len(parts) > 1 {
		parts[0] = ','
		line = append(line, parts...)
	}
	_, err := b.Write(line)
	return err
}
