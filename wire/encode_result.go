package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
)

// head holds the fields of a result before its schedule, in print order.
type head struct {
	Hare           string          `json:"hare"`
	InstanceSHA256 string          `json:"instance_sha256,omitempty"`
	Version        string          `json:"version"`
	Seed           int64           `json:"seed"`
	Status         string          `json:"status"`
	Termination    string          `json:"termination"`
	Reproducible   bool            `json:"reproducible"`
	Degraded       bool            `json:"degraded,omitempty"`
	Objective      string          `json:"objective"`
	Value          json.RawMessage `json:"value"`
	Bound          json.RawMessage `json:"bound"`
	Gap            json.RawMessage `json:"gap"`
	Reasons        []reasonJSON    `json:"reasons,omitempty"`
	Options        json.RawMessage `json:"options"`
	Engine         engineJSON      `json:"engine"`
	Metrics        *metricsJSON    `json:"metrics,omitempty"`
	GapReport      *gapReportJSON  `json:"gap_report,omitempty"`
	Timing         timingJSON      `json:"timing"`
}

type reasonJSON struct {
	Pointer string `json:"pointer,omitempty"`
	Job     string `json:"job,omitempty"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

type engineJSON struct {
	HiGHS string `json:"highs"`
}

type metricsJSON struct {
	MeanJCT         float64            `json:"mean_jct_s"`
	WeightedMeanJCT float64            `json:"weighted_mean_jct_s"`
	Makespan        json.RawMessage    `json:"makespan_s"`
	Utilization     map[string]float64 `json:"utilization"`
	Switches        int64              `json:"switches"`
	Jain            float64            `json:"jain_index"`
	BoundMethod     string             `json:"bound_method"`
	Tasks           int64              `json:"tasks"`
}

type gapReportJSON struct {
	Excess       float64            `json:"excess"`
	ReducedCost  float64            `json:"reduced_cost"`
	IdleCapacity float64            `json:"idle_capacity"`
	IdleByType   map[string]float64 `json:"idle_by_type"`
	Jobs         []jobExcessJSON    `json:"jobs"`
}

type jobExcessJSON struct {
	ID          string  `json:"id"`
	ReducedCost float64 `json:"reduced_cost"`
}

type timingJSON struct {
	Total   float64 `json:"total_s"`
	Relax   float64 `json:"relax_s"`
	Assign  float64 `json:"assign_s"`
	Improve float64 `json:"improve_s"`
	Verify  float64 `json:"verify_s"`
}

func headOf(r *hare.Result) head {
	h := head{
		Hare: ResultForm, InstanceSHA256: r.InstanceSHA256, Version: r.Version, Seed: r.Seed, Status: r.Status,
		Termination: r.Termination, Reproducible: r.Reproducible, Degraded: r.Degraded, Objective: r.Objective,
		Value: raw("null"), Bound: raw("null"), Gap: GapJSON(r),
		Options: OptionsJSON(r.Options),
		Engine:  engineJSON{r.Engine.HiGHS},
		Timing:  timingJSON{seconds(r.Timing.Total), seconds(r.Timing.Relax), seconds(r.Timing.Assign), seconds(r.Timing.Improve), seconds(r.Timing.Verify)},
	}
	if r.Value != nil {
		h.Value = raw(r.Value.String())
	}
	if r.Bound != nil {
		h.Bound = raw(r.Bound.String())
	}
	for _, x := range r.Reasons {
		h.Reasons = append(h.Reasons, reasonJSON(x))
	}
	if m := r.Metrics; m != nil {
		h.Metrics = &metricsJSON{
			MeanJCT: m.MeanJCTSeconds, WeightedMeanJCT: m.WeightedMeanJCTSeconds, Makespan: raw(hare.FormatMicros(m.MakespanUs)),
			Utilization: map[string]float64{}, Switches: m.Switches, Jain: m.JainIndex, BoundMethod: m.BoundMethod, Tasks: m.Tasks,
		}
		for _, u := range m.Utilization {
			h.Metrics.Utilization[u.Type] = u.Use
		}
	}
	if g := r.GapReport; g != nil {
		h.GapReport = &gapReportJSON{
			Excess: g.Excess, ReducedCost: g.ReducedCost, IdleCapacity: g.IdleCapacity,
			IdleByType: map[string]float64{}, Jobs: []jobExcessJSON{},
		}
		for _, x := range g.IdleByType {
			h.GapReport.IdleByType[x.Type] = x.Idle
		}
		for _, x := range g.Jobs {
			h.GapReport.Jobs = append(h.GapReport.Jobs, jobExcessJSON(x))
		}
	}
	return h
}

func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// EncodeResult writes the result/v1 form as one object, a lane a line. Options.Detail
// says how much of the schedule goes with it.
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

// EncodeResultLines writes everything but the lanes on the first line, then a lane
// a line.
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

// encodeHead writes the object up to where the schedule goes, on one line.
func encodeHead(b *bufio.Writer, r *hare.Result) error {
	text, err := json.Marshal(headOf(r))
	if err != nil {
		return err
	}
	line := text[:len(text)-1]
	if len(r.Jobs) > 0 && r.Options.Detail != "none" {
		line = append(line, `,"jobs":[`...)
		for i, j := range r.Jobs {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(line, `{"id":`...)
			line = appendString(line, j.ID)
			if j.StartUs >= 0 {
				line = append(line, `,"start_s":`...)
				line = hare.AppendMicros(line, j.StartUs)
			}
			if j.EndUs >= 0 {
				line = append(line, `,"end_s":`...)
				line = hare.AppendMicros(line, j.EndUs)
			}
			line = append(line, '}')
		}
		line = append(line, ']')
	}
	if r.Certificate != nil && r.Options.Detail != "none" {
		line = appendCertificate(append(line, `,"certificate":`...), r.Certificate)
	}
	if r.Replan != nil {
		line = appendReplan(append(line, `,"replan":`...), r)
	}
	if r.Options.Detail == "tasks" && r.Schedule != nil {
		tasks := int64(len(r.TaskList))
		if r.Metrics != nil {
			tasks = max(tasks, r.Metrics.Tasks)
		}
		if tasks > hare.MaxTaskObjects {
			return &hare.InvalidError{Pointer: "/options/detail", Code: "too_many_tasks",
				Detail: fmt.Sprintf("detail tasks lists up to %d tasks, this schedule has %d: use lanes", hare.MaxTaskObjects, tasks)}
		}
		line = append(line, `,"tasks":`...)
		line = appendTasks(line, r.TaskList)
	}
	_, err = b.Write(line)
	return err
}

// appendTasks writes the list that the solver made for detail "tasks".
func appendTasks(b []byte, tasks []hare.Task) []byte {
	b = append(b, '[')
	for i, t := range tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"job":`...)
		b = appendString(b, t.Job)
		b = append(b, `,"round":`...)
		b = strconv.AppendInt(b, t.Round, 10)
		b = append(b, `,"gpu":`...)
		b = appendString(b, t.GPU)
		b = append(b, `,"start_s":`...)
		b = hare.AppendMicros(b, t.StartUs)
		b = append(b, `,"compute_end_s":`...)
		b = hare.AppendMicros(b, t.ComputeEndUs)
		b = append(b, `,"sync_end_s":`...)
		b = hare.AppendMicros(b, t.EndUs)
		b = append(b, '}')
	}
	return append(b, ']')
}
