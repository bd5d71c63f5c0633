package study

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/hare-sched/hare/sim"
)

// This file writes reports as tables: a table of jobs with a row for each job and
// run, and a summary with a row for each run. CSV and Parquet have the same columns,
// except for the utilization by GPU type. No column holds wall time, so the same
// report gives the same bytes.

// jobRow is a job of a run. Times are in seconds. StartS and EndS are nil where the
// job had not started or ended when the run ended.
type jobRow struct {
	Policy      string   `parquet:"policy,dict"`
	Seed        int64    `parquet:"seed"`
	Number      int64    `parquet:"number"`
	JobID       string   `parquet:"job_id"`
	Weight      float64  `parquet:"weight"`
	ArrivalS    float64  `parquet:"arrival_s"`
	StartS      *float64 `parquet:"start_s,optional"`
	EndS        *float64 `parquet:"end_s,optional"`
	JCTS        *float64 `parquet:"jct_s,optional"`
	WaitS       *float64 `parquet:"wait_s,optional"`
	Slowdown    *float64 `parquet:"slowdown,optional"`
	Rho         *float64 `parquet:"rho,optional"`
	Preemptions int64    `parquet:"preemptions"`
	Counts      bool     `parquet:"counts"`
	State       string   `parquet:"state,dict"` // ended, dropped or unfinished
}

var jobColumns = []string{"policy", "seed", "number", "job_id", "weight", "arrival_s", "start_s", "end_s", "jct_s",
	"wait_s", "slowdown", "rho", "preemptions", "counts", "state"}

func (run *Run) jobRow(number int) jobRow {
	f := &run.Figures[number]
	row := jobRow{
		Policy: run.Policy, Seed: int64(run.Seed), Number: int64(number), JobID: f.ID, Weight: f.Weight,
		ArrivalS:    f.ArrivalS,
		Preemptions: f.Preemptions, Counts: f.Counts, State: stateOf(f),
	}
	if f.StartS >= 0 {
		row.StartS, row.WaitS = &f.StartS, &f.WaitS
	}
	if f.EndS >= 0 {
		row.EndS, row.JCTS = &f.EndS, &f.JCTS
		if !f.Dropped {
			row.Slowdown, row.Rho = &f.Slowdown, &f.Rho
		}
	}
	return row
}

func stateOf(f *sim.JobFigures) string {
	switch {
	case f.Dropped:
		return "dropped"
	case f.EndS < 0:
		return "unfinished"
	}
	return "ended"
}

// JobsCSV writes a row for each job of each run, with seconds of six decimals.
func (r *Report) JobsCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(jobColumns); err != nil {
		return err
	}
	f := func(x *float64) string {
		if x == nil {
			return ""
		}
		return strconv.FormatFloat(*x, 'f', 6, 64)
	}
	n := func(x int64) string { return strconv.FormatInt(x, 10) }
	for i := range r.Runs {
		run := &r.Runs[i]
		for number := range run.Figures {
			x := run.jobRow(number)
			if err := c.Write([]string{
				x.Policy, strconv.FormatUint(run.Seed, 10), n(x.Number), x.JobID, f(&x.Weight), f(&x.ArrivalS),
				f(x.StartS),
				f(x.EndS), f(x.JCTS), f(x.WaitS),
				f(x.Slowdown), f(x.Rho), n(x.Preemptions), strconv.FormatBool(x.Counts), x.State,
			}); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

// JobsParquet writes the table of JobsCSV with unrounded seconds.
func (r *Report) JobsParquet(w io.Writer) error {
	p := parquet.NewGenericWriter[jobRow](w, parquet.CreatedBy("hare", "", ""))
	rows := make([]jobRow, 0, 4096)
	for i := range r.Runs {
		run := &r.Runs[i]
		for number := range run.Figures {
			if rows = append(rows, run.jobRow(number)); len(rows) < cap(rows) && number < len(run.Figures)-1 {
				continue
			}
			if _, err := p.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	return p.Close()
}

// summaryRow is a run in the summary.
type summaryRow struct {
	Policy           string    `parquet:"policy"`
	Engine           string    `parquet:"engine"`
	Knows            string    `parquet:"knows"`
	Seed             int64     `parquet:"seed"`
	Jobs             int64     `parquet:"jobs"`
	Dropped          int64     `parquet:"dropped"`
	MeanJCTS         float64   `parquet:"mean_jct_s"`
	WeightedMeanJCTS float64   `parquet:"weighted_mean_jct_s"`
	WeightedJCTS     float64   `parquet:"weighted_jct_s"`
	P50JCTS          float64   `parquet:"p50_jct_s"`
	P90JCTS          float64   `parquet:"p90_jct_s"`
	P99JCTS          float64   `parquet:"p99_jct_s"`
	MeanWaitS        float64   `parquet:"mean_wait_s"`
	P99WaitS         float64   `parquet:"p99_wait_s"`
	MeanSlowdown     float64   `parquet:"mean_slowdown"`
	P99Slowdown      float64   `parquet:"p99_slowdown"`
	MeanRho          float64   `parquet:"mean_rho"`
	WorstRho         float64   `parquet:"worst_rho"`
	Jain             float64   `parquet:"jain"`
	TotalS           float64   `parquet:"total_duration_s"`
	MakespanS        float64   `parquet:"makespan_s"`
	Utilization      float64   `parquet:"utilization"`
	Switches         int64     `parquet:"switches"`
	SwitchS          float64   `parquet:"switch_gpu_s"`
	Preemptions      int64     `parquet:"preemptions"`
	LostTasks        int64     `parquet:"lost_tasks"`
	Failures         int64     `parquet:"failures"`
	LostS            float64   `parquet:"lost_gpu_s"`
	DownS            float64   `parquet:"down_gpu_s"`
	Verified         bool      `parquet:"verified"`
	LP               string    `parquet:"lp"`
	Use              []typeUse `parquet:"utilization_by_type,list"`
}

type typeUse struct {
	Type string  `parquet:"type"`
	Use  float64 `parquet:"utilization"`
}

// SummaryParquet writes a row for each run.
func (r *Report) SummaryParquet(w io.Writer) error {
	p := parquet.NewGenericWriter[summaryRow](w, parquet.CreatedBy("hare", "", ""))
	for i := range r.Runs {
		x := &r.Runs[i]
		row := summaryRow{
			Policy: x.Policy, Engine: x.Engine, Knows: x.Knows, Seed: int64(x.Seed), Jobs: x.Jobs,
			Dropped:  x.Dropped,
			MeanJCTS: x.MeanJCTS, WeightedMeanJCTS: x.WeightedMeanJCTS, WeightedJCTS: x.WeightedJCTS,
			P50JCTS: x.P50JCTS,
			P90JCTS: x.P90JCTS, P99JCTS: x.P99JCTS,
			MeanWaitS: x.MeanWaitS, P99WaitS: x.P99WaitS, MeanSlowdown: x.MeanSlowdown, P99Slowdown: x.P99Slowdown,
			MeanRho: x.MeanRho, WorstRho: x.WorstRho, Jain: x.Jain,
			TotalS: x.TotalS, MakespanS: x.MakespanS, Utilization: x.Utilization, Switches: x.Switches,
			SwitchS:     x.SwitchS,
			Preemptions: x.Preemptions, LostTasks: x.LostTasks, Failures: x.Failures, LostS: x.LostS, DownS: x.DownS,
			Verified: x.Verified, LP: x.LP,
		}
		for _, kind := range x.types() {
			row.Use = append(row.Use, typeUse{kind, x.UtilizationByType[kind]})
		}
		if _, err := p.Write([]summaryRow{row}); err != nil {
			return err
		}
	}
	return p.Close()
}

// types returns the GPU types of the cluster, sorted.
func (run *Run) types() []string {
	var out []string
	for kind := range run.UtilizationByType {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// SummaryCSV writes a row for each run, with a column utilization_TYPE for each type.
func (r *Report) SummaryCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := []string{"policy", "engine", "knows", "seed", "jobs", "dropped"}
	for _, f := range figures {
		head = append(head, f.name)
	}
	head = append(head, "verified", "lp")
	var types []string
	if len(r.Runs) > 0 {
		types = r.Runs[0].types()
	}
	for _, kind := range types {
		head = append(head, "utilization_"+kind)
	}
	if err := c.Write(head); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for i := range r.Runs {
		x := &r.Runs[i]
		row := []string{x.Policy, x.Engine, x.Knows, strconv.FormatUint(x.Seed, 10), strconv.FormatInt(x.Jobs, 10),
			strconv.FormatInt(x.Dropped, 10)}
		for _, f := range figures {
			row = append(row, number(f.of(x)))
		}
		row = append(row, strconv.FormatBool(x.Verified), x.LP)
		for _, kind := range types {
			row = append(row, number(x.UtilizationByType[kind]))
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
