package wire

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

var instanceTable = NewTable("Instance",
	"Instance is a cluster and the jobs to run on it. Times are decimal seconds, weights decimals, with at most six "+
		"decimals each.",
	NewField("hare", Schema{"type": "string", "enum": []string{InstanceForm}},
		func(r *Reader, v *instanceDoc) error { return r.String(&v.form) },
		func(b []byte, _ *instanceDoc) []byte { return AppendString(b, InstanceForm) }).Needed().
		About("hare names the form."),
	String("name", func(v *instanceDoc) *string { return &v.Name }).About("name is for people."),
	String("objective", func(v *instanceDoc) *string { return &v.Objective }).Always().
		With("enum", hare.Objectives()).Default(hare.ObjectiveWeightedJCT).
		About("objective is what a plan minimises: Σ w (C − a), this and Σ v max(0, C − d) for late jobs, or max C."),
	NewField("cluster", RefTo(clusterTable),
		func(_ *Reader, v *instanceDoc) error { return v.d.cluster() },
		func(b []byte, v *instanceDoc) []byte { return AppendCluster(b, &v.Cluster) }).Needed(),
	NewField("quota", ListOf(RefTo(quotaTable)),
		func(r *Reader, v *instanceDoc) error { return readQuota(r, &v.Quota) },
		func(b []byte, v *instanceDoc) []byte { return AppendQuota(b, v.Quota) }).
		About("quota limits the GPUs that users hold together at any time."),
	NewField("jobs", ListOf(RefTo(jobTable)),
		func(r *Reader, v *instanceDoc) error {
			v.d.hasJobs = true
			return r.Array(func(int) error { return v.d.job() })
		},
		func(b []byte, v *instanceDoc) []byte { return AppendJobs(b, v.Jobs) }).Needed().
		About("jobs may be an empty array. Results list jobs in this order."),
).Check(func(v *instanceDoc, has Members, found *hare.InvalidErrors) {
	if v.form != InstanceForm {
		found.Add("/hare", "unknown_form", "must be %q", InstanceForm)
	}
	if !slices.Contains(hare.Objectives(), v.Objective) {
		found.Add("/objective", "unknown_value", "objective %q: use one of %s, or leave it out for %s",
			hare.Clip(v.Objective), strings.Join(hare.Objectives(), ", "), hare.ObjectiveWeightedJCT)
	}
	if !has.Has("cluster") {
		found.Add("", "missing_field", `"cluster" is missing: give {"nodes": [{"name": "a", "gpus": {"V100": 4}}]}`)
	}
})

var jobTable = NewTable("Job", "Job is rounds one after another, each of parallel tasks.",
	String("id", func(v *jobDoc) *string { return &v.ID }).Needed().
		About("id is unique in the instance.").Example("bert").With("minLength", 1),
	Micros("weight", func(v *jobDoc) *int64 { return &v.WeightMicro }, 0).Always().
		About("weight is the cost of a second until the job has ended.").Default(1),
	Micros("release_s", func(v *jobDoc) *int64 { return &v.ReleaseUs }, 0).
		About("release_s is the earliest start, in seconds.").Default(0),
	Integer("rounds", func(v *jobDoc) *int64 { return &v.Rounds }, 1, hare.MaxExact).Always().
		About("rounds follow each other; for a job with shapes, rounds counts units.").Default(1),
	Integer("tasks", func(v *jobDoc) *int64 { return &v.Tasks }, 1, hare.MaxTasks(hare.Relaxed)).
		About("tasks of one round.").Default(1),
	NewField("sync", Schema{"type": "string", "enum": []string{"relaxed", "gang", "rigid"}},
		func(r *Reader, v *jobDoc) error { return r.sync(&v.Sync, &v.unknownSync) },
		func(b []byte, v *jobDoc) []byte { return appendSync(b, v.Sync) }).
		About("sync is relaxed (tasks of a round one after another or side by side), gang (together, on distinct "+
			"GPUs) or rigid (gang, on the same GPUs throughout).").
		Default("relaxed"),
	NewField("mix", Schema{"type": "boolean"},
		func(r *Reader, v *jobDoc) error { return r.Bool(&v.mix) },
		func(b []byte, v *jobDoc) []byte { return appendMix(b, v.Mix) }).
		About("mix lets a round of a gang job mix GPU types. Relaxed jobs always may, and rigid jobs never.").
		Default(false),
	NewField("on", MapOf(RefTo(profileTable)),
		func(_ *Reader, v *jobDoc) error { return v.d.profiles(&v.On) },
		func(b []byte, v *jobDoc) []byte {
			if v.Shapes != nil {
				return b
			}
			return appendProfiles(b, v.On, &v.profile)
		}).
		About("on has the times of a task by GPU type; a job never runs on a type left out. A job has on or shapes.").
		With("minProperties", 1),
	estimateField(func(v *jobDoc) *hare.Job { return v.Job }).
		About("estimate_s is for how long the job's user expects the job to run alone on its fastest GPU type. It is never "+
			"a limit; online policies that do not know sizes may go by it, and everything else ignores it."),
	classField(func(v *jobDoc) *hare.Job { return v.Job }).
		About("class has at most 8 strings by which jobs are alike, such as user and name. It is used as estimate_s is."),
	Integer("gpus_per_task", func(v *jobDoc) *int64 { return &v.GPUsPerTask }, 1, hare.MaxGPUs).
		About("gpus_per_task are the GPUs that one task holds, all of one type and on one node.").Default(1),
	Millis("cpus_per_task", func(v *jobDoc) *int64 { return &v.CPUMilliPerTask }, 0, hare.MaxPerTask).
		About("cpus_per_task are the CPUs, with at most three decimals, that a task holds on its node while it holds "+
			"its GPUs.").Default(0),
	Integer("memory_mib_per_task", func(v *jobDoc) *int64 { return &v.MemoryMiBPerTask }, 0, hare.MaxPerTask).
		About("memory_mib_per_task is the memory that a task holds on its node while it holds its GPUs.").Default(0),
	Bool("distinct_nodes", func(v *jobDoc) *bool { return &v.DistinctNodes }).
		About("distinct_nodes allows at most one task of a round on a node; for gang and rigid jobs.").Default(false),
	selectorField("only", func(v *jobDoc) *[]hare.LabelValues { return &v.Only }).
		About("only chooses the nodes of the job: a node must carry each label with one of its values. The label node "+
			"is the name of the node.").
		Example(Schema{"disk": "nvme"}),
	selectorField("exclude", func(v *jobDoc) *[]hare.LabelValues { return &v.Exclude }).
		About("exclude keeps the job off nodes that carry one of the labels with one of its values.").
		Example(Schema{"node": []string{"a-3"}}),
	withinField(func(v *jobDoc) *hare.Job { return v.Job }).
		About("within is the level of which one domain must hold all tasks of a round: node, a label of the topology of "+
			"the cluster, or any; for gang and rigid jobs.").
		Default(hare.LevelAny).Example("rack"),
	usersField(func(v *jobDoc) *[]string { return &v.Users }).
		About("user has the names under which quotas and reservations find the job: a user, an account, a queue.").
		Example([]string{"ann", "vision"}),
	Object("progress", func(v *jobDoc) **hare.Progress { return &v.Progress }, progressTable).
		About("progress says what of the job is done and what runs at time 0."),
	afterField(func(v *jobDoc) *[]hare.Predecessor { return &v.After }).
		About("after are the jobs for whose ends this job waits, each an id or an object with a lag.").
		Example([]any{"prep", Schema{"job": "data", "lag_s": 60}}),
	Micros("deadline_s", func(v *jobDoc) *int64 { return &v.DeadlineUs }, 1).
		About("deadline_s is when the job should have ended. Left out: no deadline."),
	Micros("late_weight", func(v *jobDoc) *int64 { return &v.LateWeightMicro }, 0).
		About("late_weight is the cost of a second after the deadline, where the objective is jct_and_tardiness.").
		Default(0),
	NewField("shapes", ListOf(RefTo(shapeTable)),
		func(r *Reader, v *jobDoc) error { return readShapes(r, v.d, &v.Shapes) },
		func(b []byte, v *jobDoc) []byte { return appendShapes(b, v.Shapes) }).
		About("shapes are the ways in which rounds may run, in place of tasks, gpus_per_task and on; rounds counts units "+
			"then. All rounds have the same shape, unless reshape_s lets them differ.").
		With("minItems", 1).With("maxItems", hare.MaxShapes),
	reshapeField(func(v *jobDoc) *hare.Job { return v.Job }).
		About("reshape_s lets the rounds of a gang have different shapes: it is the least time between the end of a round "+
			"and the start of the next one in another shape."),
	durationsField(func(v *jobDoc) *hare.Job { return v.Job }).
		About("durations say how long the job may take. Plans and bounds are for the times as they are given, and their "+
			"results are marked estimated. The p add up to 1."),
).Check(func(v *jobDoc, has Members, found *hare.InvalidErrors) {
	if v.GPUsPerTask == 1 {
		v.GPUsPerTask = 0
	}
	if v.Within == hare.LevelAny {
		v.Within = ""
	}
	if p := v.Progress; p != nil && p.RoundsDone == 0 && p.ElapsedUs == 0 && len(p.GPUs) == 0 && p.Shape == 0 {
		v.Progress = nil
	}
	checkMix(v.Job, has.Has("mix") && !v.unknownSync, v.mix, found)
	if !has.Has("on") {
		v.On = nil
		if !has.Has("shapes") {
			found.Add("", "missing_field", `"on" is missing: give the times on each GPU type, e.g. `+
				`{"V100": {"compute_s": 1.2}}`)
			v.On = []hare.Profile{{Type: "-", ComputeUs: 1}}
		}
	}
	finishShapes(v.Job, has, found)
	found.CheckJob("", v.Job)
	v.NormaliseShapes()
	v.d.unique(v.ID, found)
	// A faulty job is kept, without rounds, so that the index of a job in the
	// instance is its index in the document.
	if !has.Sound || len(*found) > 0 {
		v.Rounds = 0
	}
})

// checkMix sets whether a job may mix GPU types. A relaxed job always may and a
// rigid job never may: a document may state this, and checkMix reports only the
// contrary as a fault.
func checkMix(j *hare.Job, given, mix bool, found *hare.InvalidErrors) {
	switch {
	case !given:
	case j.Sync == hare.Relaxed && !mix:
		found.Add("/mix", "not_allowed", "relaxed jobs may always mix types: leave mix out, or use sync gang")
	case j.Sync == hare.Rigid && mix:
		found.Add("/mix", "not_allowed", "rigid jobs never mix types: leave mix out, or use sync gang")
	}
	j.Mix = mix && j.Sync == hare.Gang
}

// DecodeInstance reads an instance/v1 document, which is one JSON object, or NDJSON
// that has everything except the jobs on the first line and then one job on each
// line. The error is InvalidErrors with every fault of one pass, or the error of
// the reader.
func DecodeInstance(r io.Reader, lim Limits) (*hare.Instance, error) {
	rd := NewReader(r, lim)
	d := newInstanceReader(rd, "")
	err := d.instance()
	if err == nil && !d.hasJobs {
		err = d.jobLines()
	}
	rd.prefix = ""
	if err == nil {
		err = d.sums()
	}
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return d.inst, nil
}

// DecodeInstanceValue reads an instance at pointer in a larger
// document.
func DecodeInstanceValue(text jsontext.Value, pointer string) (*hare.Instance, error) {
	inst, err := DecodeInstance(strings.NewReader(string(text)), Limits{MaxBytes: int64(len(text)) + 1})
	var all hare.InvalidErrors
	if errors.As(err, &all) {
		for _, f := range all {
			f.Pointer = pointer + f.Pointer
		}
	}
	return inst, err
}

func (d *instanceReader) instance() error {
	d.hasJobs = !d.Is('{') // a value that is not an object cannot be followed by lines of jobs
	d.inst.Objective = hare.ObjectiveWeightedJCT
	return instanceTable.Read(d.Reader, &instanceDoc{Instance: d.inst, d: d})
}

// jobLines reads the jobs of an instance in NDJSON.
func (d *instanceReader) jobLines() error {
	n := 0
	for ; ; n++ {
		if d.d.PeekKind() == 0 {
			if _, err := d.d.ReadToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return d.broken(err)
			}
		}
		d.prefix = "/jobs/" + strconv.Itoa(n)
		if err := d.job(); err != nil {
			return err
		}
	}
	d.prefix = ""
	if n == 0 {
		return d.noJobs()
	}
	return nil
}

func (d *instanceReader) noJobs() error {
	return d.FaultAt(d.root, "missing_field", `"jobs" is missing: give an array of jobs, which may be empty`)
}

// Job reads a job that is not part of an instance.
func (r *Reader) Job() (hare.Job, error) {
	d := newInstanceReader(r, "")
	err := d.job()
	return d.one, err
}

// job reads a job and appends it to the instance.
func (d *instanceReader) job() error {
	d.one = hare.Job{WeightMicro: 1e6, Rounds: 1, Tasks: 1}
	if !d.Is('{') {
		d.one = hare.Job{}
	}
	d.jobDoc = jobDoc{Job: &d.one, d: d}
	err := jobTable.Read(d.Reader, &d.jobDoc)
	d.inst.Jobs = append(d.inst.Jobs, d.one)
	return err
}

// sums checks what concerns all jobs together, and brings a valid instance into its form.
func (d *instanceReader) sums() error {
	var found hare.InvalidErrors
	found.CheckHorizon(d.root, d.inst)
	if len(d.faults) == 0 && len(found) == 0 {
		found.CheckTogether(d.root, d.inst)
	}
	if d.bySpread && len(d.faults) == 0 && len(found) == 0 {
		d.inst.SettleLevels()
	}
	return d.Report(len(d.faults), found)
}

// EncodeInstance writes the instance/v1 form of an instance, with one node and one
// job on each line.
func EncodeInstance(w io.Writer, inst *hare.Instance) error {
	b := bufio.NewWriter(w)
	doc := &instanceDoc{Instance: inst}
	line := instanceTable.appendFields(nil, doc, "hare", "name", "objective")
	line = append(line, ",\n \"cluster\":{\"nodes\":["...)
	node := nodeDoc{}
	for i := range inst.Cluster.Nodes {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		node.Node = inst.Cluster.Nodes[i]
		line = nodeTable.Append(line, &node)
	}
	line = append(line, ']')
	if len(inst.Cluster.Reservations) > 0 {
		line = appendReservations(append(line, ",\n  \"reservations\":"...), inst.Cluster.Reservations)
	}
	if len(inst.Cluster.Topology) > 0 {
		line = appendList(append(line, ",\n  \"topology\":"...), inst.Cluster.Topology, AppendString)
	}
	if len(inst.Cluster.Bandwidths) > 0 {
		line = appendBandwidths(append(line, ",\n  \"bandwidth_gbps\":"...), inst.Cluster.Bandwidths)
	}
	if len(inst.Cluster.GPUTypes) > 0 {
		line = appendGPUTypes(append(line, ",\n  \"gpu_types\":"...), inst.Cluster.GPUTypes)
	}
	line = append(line, '}')
	if len(inst.Quota) > 0 {
		line = AppendQuota(append(line, ",\n \"quota\":"...), inst.Quota)
	}
	line = append(line, ",\n \"jobs\":["...)
	job := jobDoc{}
	for i := range inst.Jobs {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, "\n  "...)
		job.Job = &inst.Jobs[i]
		line = jobTable.Append(line, &job)
		if _, err := b.Write(line); err != nil {
			return err
		}
		line = line[:0]
	}
	line = append(line, "]}\n"...)
	if _, err := b.Write(line); err != nil {
		return err
	}
	return b.Flush()
}

func AppendJobs(b []byte, jobs []hare.Job) []byte {
	var doc jobDoc
	b = append(b, '[')
	for i := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		doc.Job = &jobs[i]
		b = jobTable.Append(b, &doc)
	}
	return append(b, ']')
}

func appendSync(b []byte, s hare.Sync) []byte {
	if s == hare.Relaxed {
		return b
	}
	return AppendString(b, s.String())
}

func appendMix(b []byte, mix bool) []byte {
	if !mix {
		return b
	}
	return append(b, "true"...)
}

// AppendInstance appends the instance/v1 form of an instance on one line.
func AppendInstance(b []byte, inst *hare.Instance) []byte {
	return instanceTable.Append(b, &instanceDoc{Instance: inst})
}

// instanceAt reads an instance at pointer in the document.
func (r *Reader) instanceAt(pointer string, to **hare.Instance) error {
	d := newInstanceReader(r, pointer)
	*to = d.inst
	err := d.instance()
	if err == nil && !d.hasJobs {
		err = d.noJobs()
	}
	if err == nil {
		err = d.sums()
	}
	return err
}

// Instance makes a field whose value is an instance/v1 document; nil is left out.
func Instance[T any](name string, at func(*T) **hare.Instance) Field[T] {
	return NewField(name, RefTo(instanceTable),
		func(r *Reader, v *T) error { return r.instanceAt(string(r.d.StackPointer()), at(v)) },
		func(b []byte, v *T) []byte {
			if inst := *at(v); inst != nil {
				return AppendInstance(b, inst)
			}
			return b
		})
}

// Cluster makes a field whose value is a cluster; nil is left out.
func Cluster[T any](name string, at func(*T) **hare.Cluster) Field[T] {
	return NewField(name, RefTo(clusterTable),
		func(r *Reader, v *T) error {
			d := newInstanceReader(r, strings.TrimSuffix(string(r.d.StackPointer()), "/cluster"))
			*at(v) = &d.inst.Cluster
			return d.cluster()
		},
		func(b []byte, v *T) []byte {
			if c := *at(v); c != nil {
				return AppendCluster(b, c)
			}
			return b
		})
}
