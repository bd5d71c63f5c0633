package main

import (
	"encoding/csv"
	"errors"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/hare-sched/hare/sim/capacity"
)

// capacityJob is a job of a week in the table of all jobs, from which hours and money can be computed again.
type capacityJob struct {
	Option    string        `parquet:"option,dict"`
	Policy    string        `parquet:"policy,dict"`
	Week      int64         `parquet:"week"`
	Job       string        `parquet:"job"`
	User      string        `parquet:"user,dict"`
	SubmitS   float64       `parquet:"submit_s"`
	StartS    float64       `parquet:"start_s"`
	EndS      float64       `parquet:"end_s"`
	DeadlineS *float64      `parquet:"deadline_s,optional"`
	GPUs      []capacityGPU `parquet:"gpu_s,list"`
}

// capacityGPU is for how long a job held GPUs of a type, in GPU-seconds.
type capacityGPU struct {
	Type string  `parquet:"type,dict"`
	S    float64 `parquet:"s"`
}

// jobs writes the table of all jobs of all weeks while a plan is made: to out as CSV with a column for each type, and
// to columns as Parquet with a list of them.
func (f *capacityFlags) jobs(out, columns io.Writer, cfg *capacity.Config, plan func() error) error {
	table, rows := csv.NewWriter(out), parquet.NewGenericWriter[capacityJob](columns,
		parquet.CreatedBy("hare", "", ""), parquet.Compression(&parquet.Zstd))
	types := capacity.Types(&f.req)
	head := []string{"option", "policy", "week", "job", "user", "submit_s", "start_s", "end_s", "deadline_s"}
	for _, t := range types {
		head = append(head, "gpu_s_"+t)
	}
	if err := table.Write(head); err != nil {
		return err
	}
	cfg.Week = func(option, policy string, week int, w *capacity.Week) error {
		jobs := make([]capacityJob, len(w.Jobs))
		for i := range w.Jobs {
			j, row := &w.Jobs[i], &jobs[i]
			*row = capacityJob{Option: option, Policy: policy, Week: int64(week), Job: j.ID, User: j.User,
				SubmitS: j.SubmitS, StartS: j.StartS, EndS: j.EndS}
			if j.DeadlineS != 0 {
				row.DeadlineS = &j.DeadlineS
			}
			for _, t := range types {
				if us := j.HeldUs[t]; us > 0 {
					row.GPUs = append(row.GPUs, capacityGPU{t, float64(us) / 1e6})
				}
			}
			if err := table.Write(row.texts(types)); err != nil {
				return err
			}
		}
		_, err := rows.Write(jobs)
		return err
	}
	err := plan()
	table.Flush()
	return errors.Join(err, table.Error(), rows.Close())
}

// texts are the row as CSV has it.
func (j *capacityJob) texts(types []string) []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	row := []string{j.Option, j.Policy, strconv.FormatInt(j.Week, 10), j.Job, j.User, number(j.SubmitS),
		number(j.StartS), number(j.EndS), ""}
	if j.DeadlineS != nil {
		row[8] = number(*j.DeadlineS)
	}
	held := j.GPUs
	for _, t := range types {
		s := 0.0
		if len(held) > 0 && held[0].Type == t {
			s, held = held[0].S, held[1:]
		}
		row = append(row, number(s))
	}
	return row
}
