package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// resultDoc is a result while it is read or written.
type resultDoc struct {
	*hare.Result
	d    *resultReader
	form string
}

// resultTable is the table of results. The order of its rows is that of the
// specification; encodeHead defines the order in which the fields are written.
var resultTable = NewTable("Result", "Result is the answer to a solve. Later versions may add fields.",
	NewField("hare", Schema{"type": "string", "enum": []string{ResultForm}},
		func(r *Reader, v *resultDoc) error { return r.String(&v.form) },
		func(b []byte, _ *resultDoc) []byte { return AppendString(b, ResultForm) }).Needed().
		About("hare names the form."),
	String("instance_sha256", func(v *resultDoc) *string { return &v.InstanceSHA256 }).
		Reading(func(r *Reader, v *resultDoc) error { return r.sha256(&v.InstanceSHA256) }).Needed().MayLack().
		About("instance_sha256 is over the canonical form of the instance, as hare hash prints it."),
	String("version", func(v *resultDoc) *string { return &v.Version }).Needed().
		About("version of Hare that made the result."),
	Integer("seed", func(v *resultDoc) *int64 { return &v.Seed }, math.MinInt64,
		math.MaxInt64).Needed().With("minimum", nil).
		About("seed of the search."),
	String("status", func(v *resultDoc) *string { return &v.Status }).Needed().
		With("enum", []string{hare.StatusSucceeded, hare.StatusCancelled, hare.StatusFailed}).
		About("status of the solve."),
	String("termination", func(v *resultDoc) *string { return &v.Termination }).Needed().
		With("enum", []string{"optimal", "gap", "work_limit", "method", "deadline", "cancelled", "infeasible",
			"no_schedule"}).
		About("termination says why the solve stopped."),
	Bool("reproducible", func(v *resultDoc) *bool { return &v.Reproducible }).Needed().
		About("reproducible: the clock decided nothing, so that the same call gives the same bytes, timing excepted."),
	Bool("degraded", func(v *resultDoc) *bool { return &v.Degraded }).
		About("degraded: the server had too much to do, and the options allowed a greedy schedule and a coarse "+
			"bound."),
	Bool("estimated", func(v *resultDoc) *bool { return &v.Estimated }).
		About("estimated: some job has durations. Value, bound and gap are for the times as they are written, alone."),
	Bool("optimal_by_search", func(v *resultDoc) *bool { return &v.OptimalBySearch }).
		About("optimal_by_search: a search has seen all plans, and none is better. No certificate proves this."),
	String("objective", func(v *resultDoc) *string { return &v.Objective }).Needed().
		With("enum", hare.Objectives()).
		About("objective of value and bound: Σ w (C − a) in weight-seconds, this and Σ v max(0, C − d), or max C in "+
			"seconds."),
	NewField("value", nullableNumber,
		func(r *Reader, v *resultDoc) error { return r.amount(&v.Value) },
		func(b []byte, v *resultDoc) []byte { return appendAmountOrNull(b, v.Value) }).Needed().
		About("value of the schedule, exact; null without a schedule."),
	NewField("bound", nullableNumber,
		func(r *Reader, v *resultDoc) error { return r.amount(&v.Bound) },
		func(b []byte, v *resultDoc) []byte { return appendAmountOrNull(b, v.Bound) }).Needed().
		About("bound below which no schedule can be, rounded down at six decimals; null without one."),
	NewField("constant", numberSchema,
		func(r *Reader, v *resultDoc) error { return r.amount(&v.Constant) },
		func(b []byte, v *resultDoc) []byte {
			if v.Constant == nil {
				return b
			}
			return appendAmountOrNull(b, v.Constant)
		}).
		About("constant is what jobs add that end with the work that runs at time 0. It is part of neither value nor "+
			"bound. Left out where there are no such jobs, and for the objective makespan."),
	NewField("gap", nullableNumber,
		func(r *Reader, v *resultDoc) error { return r.gap(&v.StatedGap) },
		func(b []byte, v *resultDoc) []byte { return append(b, GapJSON(v.Result)...) }).Needed().
		About("gap is value/bound − 1, rounded up at six decimals; null without a useful bound."),
	infoObjects("reasons", func(v *resultDoc) *[]hare.Reason { return &v.Reasons }, math.MaxInt, reasonTable).
		About("reasons say why the instance is infeasible or no schedule was found."),
	NewField("options", RefTo(optionsTable),
		func(r *Reader, v *resultDoc) error { return infoObject(r, infoOptionsTable, &v.Options) },
		func(b []byte, v *resultDoc) []byte { return append(b, OptionsJSON(v.Options)...) }).Needed(),
	NewField("engine", RefTo(engineTable),
		func(r *Reader, v *resultDoc) error { return infoObject(r, engineTable, &v.Engine) },
		func(b []byte, v *resultDoc) []byte { return engineTable.Append(b, &v.Engine) }).Needed(),
	infoPointer("metrics", func(v *resultDoc) **hare.Metrics { return &v.Metrics }, metricsTable),
	infoPointer("gap_report", func(v *resultDoc) **hare.GapReport { return &v.GapReport }, gapReportTable),
	NewField("timing", RefTo(timingTable),
		func(r *Reader, v *resultDoc) error { return infoObject(r, timingTable, &v.Timing) },
		func(b []byte, v *resultDoc) []byte { return timingTable.Append(b, &v.Timing) }).Needed(),
	NewField("jobs", ListOf(RefTo(jobResultTable)), notNull(func(r *Reader, v *resultDoc) error {
		return r.Array(func(int) error {
			j := hare.JobResult{StartUs: -1, EndUs: -1}
			err := jobResultTable.Read(r, &j)
			v.Jobs = append(v.Jobs, j)
			return err
		})
	}), func(b []byte, v *resultDoc) []byte {
		if len(v.Jobs) == 0 || v.Options.Detail == "none" {
			return b
		}
		return appendObjects(b, v.Jobs, jobResultTable)
	}).About("jobs in the order of the instance."),
	NewField("certificate", RefTo(certificateTable),
		notNull(func(_ *Reader, v *resultDoc) error { return v.d.certificate() }),
		func(b []byte, v *resultDoc) []byte {
			if v.Certificate == nil || v.Options.Detail == "none" {
				return b
			}
			return appendCertificate(b, v.Certificate)
		}),
	infoObjects("tasks", func(v *resultDoc) *[]hare.Task { return &v.TaskList }, hare.MaxTaskObjects, taskTable).
		Writing(func(b []byte, v *resultDoc) []byte {
			if v.Options.Detail != "tasks" || v.Schedule == nil {
				return b
			}
			return appendObjects(b, v.TaskList, taskTable)
		}).
		About("tasks are listed with detail tasks alone."),
	NewField("schedule", RefTo(scheduleTable), notNull(func(_ *Reader, v *resultDoc) error { return v.d.schedule() }),
		nil),
	NewField("replan", RefTo(replanTable), notNull(func(r *Reader, v *resultDoc) error {
		p := &hare.Replan{Stated: &hare.StatedReplan{}}
		if r.Is('{') {
			v.Replan = p
		}
		return replanTable.Read(r, &replanDoc{Replan: p, d: v.d})
	}), func(b []byte, v *resultDoc) []byte {
		if v.Replan == nil {
			return b
		}
		return replanTable.Append(b, &replanDoc{Replan: v.Replan, of: v.Result})
	}),
).Open().Check(func(v *resultDoc, _ Members, found *hare.InvalidErrors) {
	if v.form != ResultForm {
		found.Add("/hare", "unknown_form", "must be %q", ResultForm)
	}
})

var reasonTable = NewTable("Reason", "Reason is one obstacle.",
	infoString("pointer", func(x *hare.Reason) *string { return &x.Pointer }).About("pointer (RFC 6901) into the "+
		"instance."),
	infoString("job", func(x *hare.Reason) *string { return &x.Job }),
	infoString("code", func(x *hare.Reason) *string { return &x.Code }).Needed(),
	infoString("detail", func(x *hare.Reason) *string { return &x.Detail }).Needed(),
).Open()

var engineTable = NewTable("Engine", "Engine names what computed the result.",
	infoString("highs", func(x *hare.Engine) *string { return &x.HiGHS }).Needed().
		About("highs is its version, empty when the LP engine was not there."),
).Open()

var metricsTable = NewTable("Metrics", "Metrics stand beside the objective.",
	infoFloat("mean_jct_s", func(m *hare.Metrics) *float64 { return &m.MeanJCTSeconds }).Needed().
		About("mean_jct_s is the mean time from release to end."),
	infoFloat("weighted_mean_jct_s", func(m *hare.Metrics) *float64 { return &m.WeightedMeanJCTSeconds }).Needed().
		About("weighted_mean_jct_s is the mean by weight."),
	infoMicros("makespan_s", func(m *hare.Metrics) *int64 { return &m.MakespanUs }).Needed().
		About("makespan_s is when the last job ends."),
	NewField("utilization", MapOf(numberSchema), readUtilization, func(b []byte, m *hare.Metrics) []byte {
		return appendFloats(b, m.Utilization, func(x *hare.TypeUse) (string, float64) { return x.Type, x.Use })
	}).Needed().
		About("utilization by GPU type is the share of the GPU time in service, up to the makespan, that was held."),
	NewField("utilisation", Schema{}, readUtilization, nil).Hidden(), // the spelling of results of earlier versions
	infoInteger("switches", func(m *hare.Metrics) *int64 { return &m.Switches }).Needed().
		About("switches are changes of job on a GPU."),
	infoFloat("jain_index", func(m *hare.Metrics) *float64 { return &m.JainIndex }).Needed().
		About("jain_index is the fairness of completion times over least times; 1 is even."),
	infoString("bound_method", func(m *hare.Metrics) *string { return &m.BoundMethod }).Needed().
		About("bound_method is the method of the certificate."),
	infoInteger("tasks", func(m *hare.Metrics) *int64 { return &m.Tasks }).Needed().
		About("tasks is the number of tasks of the schedule."),
	infoPointer("deadlines", func(m *hare.Metrics) **hare.DeadlineMetrics { return &m.Deadlines }, deadlineTable).
		About("deadlines are left out where no job has one."),
	infoPointer("setups", func(m *hare.Metrics) **hare.SetupMetrics { return &m.Setups }, setupTable).
		About("setups are left out where no job has switch_s."),
).Open()

var setupTable = NewTable("Setups", "Setups says how often GPUs are set up for jobs.",
	infoInteger("count", func(m *hare.SetupMetrics) *int64 { return &m.Count }).Needed().
		About("count is the number of setups of one GPU each."),
	infoFloat("time_s", func(m *hare.SetupMetrics) *float64 { return &m.TimeSeconds }).Needed().
		About("time_s is the GPU-time of all setups."),
).Open()

var deadlineTable = NewTable("Deadlines",
	"Deadlines says how many deadlines a schedule meets, whatever the objective.",
	infoInteger("jobs", func(d *hare.DeadlineMetrics) *int64 { return &d.Jobs }).Needed().
		About("jobs are those with a deadline."),
	infoInteger("met", func(d *hare.DeadlineMetrics) *int64 { return &d.Met }).Needed().
		About("met are the jobs that end by their deadlines."),
	infoFloat("met_share", func(d *hare.DeadlineMetrics) *float64 { return &d.MetShare }).Needed().
		About("met_share is met/jobs."),
	infoFloat("tardiness_s", func(d *hare.DeadlineMetrics) *float64 { return &d.TardinessSeconds }).Needed().
		About("tardiness_s is the sum of the times by which jobs end after their deadlines, without weights."),
).Open()

func readUtilization(r *Reader, m *hare.Metrics) error {
	err := r.infoFloats(func(kind string, x float64) {
		m.Utilization = append(m.Utilization,
			hare.TypeUse{Type: kind, Use: x})
	})
	slices.SortFunc(m.Utilization, func(a, b hare.TypeUse) int { return strings.Compare(a.Type, b.Type) })
	return err
}

var gapReportTable = NewTable("GapReport", "GapReport says where value − bound sits, in weight-seconds.",
	infoFloat("excess", func(g *hare.GapReport) *float64 { return &g.Excess }).Needed().
		About("excess is value − bound: the sum of the next two."),
	infoFloat("reduced_cost", func(g *hare.GapReport) *float64 { return &g.ReducedCost }).Needed().
		About("reduced_cost sums over jobs what they cost over the least that each could cost on its own at the "+
			"certificate's prices."),
	infoFloat("idle_capacity", func(g *hare.GapReport) *float64 { return &g.IdleCapacity }).Needed().
		About("idle_capacity is the price of what GPUs could have been used for and were not."),
	NewField("idle_by_type", MapOf(numberSchema), func(r *Reader, g *hare.GapReport) error {
		err := r.infoFloats(func(kind string, x float64) {
			g.IdleByType = append(g.IdleByType,
				hare.TypeIdle{Type: kind, Idle: x})
		})
		slices.SortFunc(g.IdleByType, func(a, b hare.TypeIdle) int { return strings.Compare(a.Type, b.Type) })
		return err
	}, func(b []byte, g *hare.GapReport) []byte {
		return appendFloats(b, g.IdleByType, func(x *hare.TypeIdle) (string, float64) { return x.Type, x.Idle })
	}).Needed(),
	infoObjects("jobs", func(g *hare.GapReport) *[]hare.JobExcess { return &g.Jobs }, hare.MaxReportedJobs,
		jobExcessTable).Needed().
		About("jobs are those of the greatest reduced cost, at most 20."),
).Open()

var jobExcessTable = NewTable("JobExcess", "JobExcess is a job's reduced cost, in weight-seconds.",
	infoString("id", func(x *hare.JobExcess) *string { return &x.ID }).Needed(),
	infoFloat("reduced_cost", func(x *hare.JobExcess) *float64 { return &x.ReducedCost }).Needed(),
).Open()

var timingTable = NewTable("Timing", "Timing is wall time by phase, in seconds; it alone differs between equal runs.",
	infoSeconds("total_s", func(t *hare.Timing) *time.Duration { return &t.Total }).Needed(),
	infoSeconds("relax_s", func(t *hare.Timing) *time.Duration { return &t.Relax }).Needed(),
	infoSeconds("assign_s", func(t *hare.Timing) *time.Duration { return &t.Assign }).Needed(),
	infoSeconds("improve_s", func(t *hare.Timing) *time.Duration { return &t.Improve }).Needed(),
	infoSeconds("verify_s", func(t *hare.Timing) *time.Duration { return &t.Verify }).Needed(),
).Open()

var jobResultTable = NewTable("JobResult", "JobResult has one job's times, in seconds.",
	String("id", func(j *hare.JobResult) *string { return &j.ID }).Needed().
		About("id of the job."),
	timeOrNone("start_s", func(j *hare.JobResult) *int64 { return &j.StartUs }).
		About("start_s is the start of the first task; 0 for work that runs at time 0."),
	timeOrNone("end_s", func(j *hare.JobResult) *int64 { return &j.EndUs }).Needed().MayLack().
		About("end_s is the end of the last synchronisation."),
).Open()

// timeOrNone makes a field for a time; −1 stands for a time that is left out.
func timeOrNone(name string, at func(*hare.JobResult) *int64) Field[hare.JobResult] {
	return NewField(name, numberSchema,
		func(r *Reader, j *hare.JobResult) error { return r.Micros(at(j), 0) },
		func(b []byte, j *hare.JobResult) []byte {
			if us := *at(j); us >= 0 {
				return hare.AppendMicros(b, us)
			}
			return b
		})
}

var taskTable = NewTable("Task", "Task is one task of the schedule, in seconds.",
	infoString("job", func(t *hare.Task) *string { return &t.Job }).Needed().
		About("job is the id of the job."),
	infoInteger("round", func(t *hare.Task) *int64 { return &t.Round }).Needed().
		About("round of the task, from 0; the first unit of the round for a job with shapes."),
	infoString("gpu", func(t *hare.Task) *string { return &t.GPU }).Needed().
		About("gpu is node/index."),
	infoMicros("start_s", func(t *hare.Task) *int64 { return &t.StartUs }).Needed().
		About("start_s is when the task starts."),
	infoMicros("compute_end_s", func(t *hare.Task) *int64 { return &t.ComputeEndUs }).Needed().
		About("compute_end_s is when its compute ends."),
	infoMicros("sync_end_s", func(t *hare.Task) *int64 { return &t.EndUs }).Needed().
		About("sync_end_s is when its synchronisation ends."),
).Open()

// infoOptionsTable reads the options of a result, which only inform a reader.
// optionsTable writes them.
var infoOptionsTable = NewTable("", "",
	infoSeconds("time_limit_s", func(o *hare.Options) *time.Duration { return &o.TimeLimit }),
	infoInteger("work_limit", func(o *hare.Options) *int64 { return &o.WorkLimit }),
	infoFloat("gap", func(o *hare.Options) *float64 { return &o.Gap }),
	infoInteger("seed", func(o *hare.Options) *int64 { return &o.Seed }),
	infoString("bound", func(o *hare.Options) *string { return &o.Bound }),
	infoString("order", func(o *hare.Options) *string { return &o.Order }),
	infoString("assign", func(o *hare.Options) *string { return &o.Assign }),
	infoString("detail", func(o *hare.Options) *string { return &o.Detail }),
	infoString("objective", func(o *hare.Options) *string { return &o.Objective }),
	infoString("method", func(o *hare.Options) *string { return &o.Method }),
).Open()

func appendAmountOrNull(b []byte, a *hare.Amount) []byte {
	if a == nil {
		return append(b, "null"...)
	}
	return append(b, a.String()...)
}

// DecodeResult decodes a result/v1 document, as one object or as NDJSON with one
// lane a line. Schedule and certificate are decoded strictly; unknown fields of the
// result are skipped. DecodeResult takes O(size), uses no reflection, and holds
// little more than the result in memory.
func DecodeResult(r io.Reader, lim Limits) (*hare.Result, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	err := d.result()
	if s := d.res.Schedule; s != nil {
		for err == nil && rd.Is('{') {
			rd.prefix = "/schedule/lanes/" + strconv.Itoa(len(s.Lanes))
			err = d.lane()
		}
		rd.prefix = ""
		if err == nil {
			err = d.indices()
		}
	}
	rd.prefix = ""
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return d.res, nil
}

// DecodeCertificate decodes a certificate/v1 document.
func DecodeCertificate(r io.Reader, lim Limits) (*hare.Certificate, error) {
	rd := NewReader(r, lim)
	d := &resultReader{Reader: rd, res: &hare.Result{}}
	if err := rd.Finish(d.certificate()); err != nil {
		return nil, err
	}
	return d.res.Certificate, nil
}

// EncodeResult writes the result/v1 form of a result as one object, with one lane
// on each line. Options.Detail selects how much of the schedule is written.
func EncodeResult(w io.Writer, r *hare.Result) error {
	b := bufio.NewWriter(w)
	if err := encodeHead(b, r); err != nil {
		return err
	}
	if writesLanes(r) {
		line := appendList([]byte(",\n \"schedule\":{\"jobs\":"), r.Schedule.Jobs, AppendString)
		line = append(line, ",\"lanes\":["...)
		for i := range r.Schedule.Lanes {
			if i > 0 {
				line = append(line, ',')
			}
			line = AppendLane(append(line, "\n  "...), &r.Schedule.Lanes[i])
			if _, err := b.Write(line); err != nil {
				return err
			}
			line = line[:0]
		}
		b.Write(append(line, "]}"...)) // Flush returns the error
	}
	b.WriteString("}\n")
	return b.Flush()
}

// EncodeResultLines writes everything except the lanes on the first line, and then
// one lane on each line.
func EncodeResultLines(w io.Writer, r *hare.Result) error {
	b := bufio.NewWriter(w)
	if err := encodeHead(b, r); err != nil {
		return err
	}
	if !writesLanes(r) {
		b.WriteString("}\n")
		return b.Flush()
	}
	line := appendList([]byte(`,"schedule":{"jobs":`), r.Schedule.Jobs, AppendString)
	b.Write(append(line, ",\"lanes\":[]}}\n"...))
	for i := range r.Schedule.Lanes {
		if _, err := b.Write(append(AppendLane(nil, &r.Schedule.Lanes[i]), '\n')); err != nil {
			return err
		}
	}
	return b.Flush()
}

// writesLanes reports whether the document of a result has the lanes of its schedule.
func writesLanes(r *hare.Result) bool {
	return r.Schedule != nil && r.Options.Detail != "none" && r.Options.Detail != "jobs"
}

// These lists hold the fields before the schedule in the order in which they are
// written.
var (
	headFields = []string{
		"hare", "instance_sha256", "version", "seed", "status", "termination", "reproducible", "degraded", "estimated",
		"optimal_by_search", "objective", "value", "bound", "constant", "gap", "reasons", "options", "engine", "metrics",
		"gap_report", "timing",
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

// resultAt reads a result at pointer in the document.
func (r *Reader) resultAt(pointer string, to **hare.Result) error {
	d := &resultReader{Reader: r, root: pointer, res: &hare.Result{}}
	*to = d.res
	err := d.result()
	if err == nil {
		err = d.indices()
	}
	return err
}

// Result makes a field whose value is a result/v1 document; nil is left out, and so is a result
// that is not Encodable.
func Result[T any](name string, at func(*T) **hare.Result) Field[T] {
	return NewField(name, RefTo(resultTable),
		func(r *Reader, v *T) error { return r.resultAt(string(r.d.StackPointer()), at(v)) },
		func(b []byte, v *T) []byte {
			res := *at(v)
			if res == nil {
				return b
			}
			text := bytes.NewBuffer(b)
			if err := EncodeResult(text, res); err != nil {
				return b
			}
			return bytes.TrimRight(text.Bytes(), "\n")
		})
}

// GapJSON returns the gap of a result in JSON: null without a useful bound.
func GapJSON(r *hare.Result) json.RawMessage {
	g, ok := r.Gap()
	if !ok {
		return json.RawMessage("null")
	}
	text := g.FloatString(6) // exact: it is a multiple of 1e-6
	return json.RawMessage(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}

func (d *resultReader) result() error {
	return resultTable.Read(d.Reader, &resultDoc{Result: d.res, d: d})
}
