// Package simulate has the documents of simulations: the request, with its one
// table, and the report. Servers, clients and the specification share them; package
// study plays what a request asks for.
package simulate

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Request is the document of a call that plays jobs to policies. One of
// Trace, Instance and Generate gives the jobs.
type Request struct {
	Policies []string
	Trace    *Trace
	Instance *hare.Instance
	Generate *Generate
	// GPUs or Cluster is where the jobs run; without either it is the cluster of
	// the instance, or the one that comes with the trace's format.
	GPUs    []hare.TypeCount
	Cluster *hare.Cluster
	// First and Last are the numbers, by arrival from 0, of the jobs that count;
	// Last 0 means all jobs.
	First, Last int64
	// Seed is of all draws of the first repeat, Seed + 1 of the second.
	Seed int64
	// Repeat is how often each policy runs; 0 means once.
	Repeat int64
	// LeaseUs, ResetUs and RestartUs are used by leases alone. LeaseUs is how long a
	// gang holds its GPUs; nil means 360 s. ResetUs is the least time between two
	// allocations of the GPUs; nil means 1,920 s, as in Gavel. RestartUs is the time
	// that a lease on other GPUs than before loses; nil means 0, and for elastic
	// policies, which use it too, 0 means 30 s.
	LeaseUs, ResetUs, RestartUs *int64
	// IntervalS is how often elastic policies decide, in seconds; 0 means 60. They
	// need a Pollux workload.
	IntervalS int64
	// Prices are what an hour of a GPU costs, by type. Policies of cost need a price
	// for every type of the cluster; nil means leases.GavelPrices.
	Prices []TypePrice
	// MergeUs makes the simulation faster: as many rounds of a gang job of Instance or
	// Generate as take this long on its fastest type are simulated as one round, and
	// all rounds of a rigid job. Task policies then stop gangs only between merged
	// rounds. 0 merges nothing. Traces have QuantumUs instead.
	MergeUs int64
	// Faults take GPUs or nodes out of service at given times, and FaultRate does so
	// at random. Leases have no random faults of nodes. A cluster that is given as GPU
	// counts has one node for each type, whose name is the type's in lower case.
	Faults    []Fault
	FaultRate FaultRate
	// Failures make tasks fail and start again. Leases have no tasks.
	Failures Failures
	// Stragglers stretches every task as Alibaba measured training steps to vary
	// (trace.MiniBatch). Leases have no tasks.
	Stragglers bool
	// SwitchUs is the time that is lost when a GPU begins a task of another job than
	// before. Leases lose RestartUs instead.
	SwitchUs int64
	// PlanLatencyUs is how long the plans of policies that follow plans take. 0 means that
	// they are there at once.
	PlanLatencyUs int64
	// Parameters are those of policies of tasks, by name, as in sessions, and those that other policies have in
	// simulations alone: each is a JSON object.
	Parameters map[string]json.RawMessage
	// Sizes is SizesExact (the default) or SizesEstimates.
	Sizes string
	// CDF asks for the distribution of completion times.
	CDF bool
	// Detail is runs (default), or jobs for the figures of every job.
	Detail string
	// TimeLimit covers waiting and working; 0 means the server's.
	TimeLimit time.Duration
	// Name is for people. Labels are the caller's own, and come back with the report.
	Name   string
	Labels map[string]string
	// Bound reports whether the jobs' weighted JCT is bounded: BoundNever, BoundAuto or BoundAlways.
	Bound string
}

// Trace is a text of jobs, one job a line.
type Trace struct {
	// Name is the name of a shipped trace where Text is nil. With a Text, messages use
	// Name for the text, and the document leaves Name out.
	Name string
	Text []byte
	// Format is one of those of hare import; empty means that the columns tell.
	Format string
	// Table is the second text of the format: step rates for gavel and shockwave, step
	// times for pollux, nodes for openb. Where Table is nil, TableName is the name of a
	// shipped table, and empty means the one that belongs to the format.
	Table     []byte
	TableName string
	// QuantumUs is how long a round of merged steps takes on a job's fastest type. 0
	// means 60 s, or as many minutes as keep the trace below about 10 million tasks.
	// Formats with step rates give leases the steps themselves.
	QuantumUs int64
	// Sync is gang (default) or rigid, and is used by task policies alone.
	Sync string
}

// Generate draws an instance for every repeat; zeroes are the
// defaults of hare generate.
type Generate struct {
	Jobs     int64
	Arrivals string
	Sync     string
	GrainUs  int64
}

// Fault takes a GPU (node/index), or a node, out of service from FromUs
// until UntilUs, which may be Forever.
type Fault struct {
	GPU, Node       string
	FromUs, UntilUs int64
}

// FaultRate are mean times between failures and to repair, of GPUs and
// of nodes; zeroes mean none.
type FaultRate struct {
	GPUMeanUs, GPURepairUs, NodeMeanUs, NodeRepairUs int64
}

// Failures say how often tasks fail: the chance that one does, and how many do for
// each hour that a GPU computes. The document rounds both to millionths.
type Failures struct {
	Probability, PerGPUHour float64
}

// TypePrice is what an hour of a GPU of a type costs, in millionths of whatever
// it is paid in.
type TypePrice struct {
	Type  string
	Micro int64
}

// Details of the answer to a simulation.
const (
	DetailRuns = "runs"
	DetailJobs = "jobs"
)

// MaxLabels is the largest number of labels of a request.
const MaxLabels = 64

// Limits of what a document can say.
const (
	maxPolicies  = 1000 // keeps the list of a hostile document short; who simulates has a limit too
	maxIntervalS = 1_000_000_000
)

// Form is the table of requests: every field of the document stands here and in
// Request, and nowhere else.
var Form = wire.NewTable("SimulationRequest",
	"SimulationRequest says which jobs are played to which policies, and on what. One of trace, instance and "+
		"generate "+
		"gives the jobs.",
	wire.Strings("policies", func(r *Request) *[]string { return &r.Policies }, maxPolicies, "policies").
		Required(`give an array of names, e.g. ["hlas", "gavel:fifo"]`).
		About("policies are names, none twice: docs/use/policies.md has all.").
		Example([]string{"hlas", "srtf"}).With("minItems", 1).With("maxItems", 64).With("uniqueItems", true),
	wire.Object("trace", func(r *Request) **Trace { return &r.Trace }, traceForm),
	wire.Instance("instance", func(r *Request) **hare.Instance { return &r.Instance }),
	wire.Object("generate", func(r *Request) **Generate { return &r.Generate }, generateForm),
	wire.Counts("gpus", func(r *Request) *[]hare.TypeCount { return &r.GPUs }).
		About("gpus is the number of GPUs by type where the jobs run; left out, with cluster: that of the "+
			"instance, or "+
			"the one that comes with the trace's format.").
		Example(wire.Schema{"V100": 36, "K80": 12}).With("minProperties", 1),
	wire.Cluster("cluster", func(r *Request) **hare.Cluster { return &r.Cluster }),
	wire.NewField("jobs", wire.ListOf(wire.Schema{"type": "integer", "format": "int64", "minimum": 0}), readWindow,
		writeWindow).
		About("jobs are the first and the last number, by arrival from 0, of the jobs that figures are of; left "+
			"out: all.").
		With("minItems", 2).With("maxItems", 2),
	wire.Integer("seed", func(r *Request) *int64 { return &r.Seed }, 0, hare.MaxExact).
		About("seed is of all draws of the first repeat, seed + 1 of the second.").Default(0),
	wire.Integer("repeat", func(r *Request) *int64 { return &r.Repeat }, 1, hare.MaxExact).
		About("repeat is how often each policy runs; from 2 on there are means with confidence intervals.").
		Default(1).With("maximum", 1000),
	wire.OptionalMicros("lease_s", func(r *Request) **int64 { return &r.LeaseUs }, 1).
		About("lease_s is how long a gang holds its GPUs, of policies that lend them.").Default(360),
	wire.OptionalMicros("reset_s", func(r *Request) **int64 { return &r.ResetUs }, 0).
		About("reset_s is the least time between two divisions of the GPUs.").Default(1920),
	wire.OptionalMicros("restart_s", func(r *Request) **int64 { return &r.RestartUs }, 0).
		About("restart_s is what a lease on other GPUs than before loses; 0 is 30 for elastic policies, for which "+
			"it is "+
			"whole seconds.").
		Default(0),
	wire.Integer("interval_s", func(r *Request) *int64 { return &r.IntervalS }, 1, maxIntervalS).
		About("interval_s is how often elastic policies are asked, in whole seconds.").Default(60).With("maximum",
		maxIntervalS),
	wire.NewField("prices", wire.MapOf(wire.Schema{"type": "number", "format": "double", "exclusiveMinimum": 0}),
		readPrices, writePrices).
		About("prices are of an hour of a GPU, by type, for policies of cost, which need one of every type of the "+
			"cluster; others may be there too. Left out: Gavel's, 0.74 for V100, 0.43 for P100 and 0.135 for K80.").
		With("minProperties", 1),
	wire.Micros("merge_s", func(r *Request) *int64 { return &r.MergeUs }, 1).
		About("merge_s simulates as one as many rounds of a gang of instance or generate as take so long on its "+
			"fastest "+
			"type, and all of a rigid job; a trace has quantum_s."),
	wire.Objects("faults", func(r *Request) *[]Fault { return &r.Faults },
		faultForm).About("faults take GPUs out of service."),
	wire.Part("fault_rate", func(r *Request) *FaultRate { return &r.FaultRate }, faultRateForm),
	wire.Part("failures", func(r *Request) *Failures { return &r.Failures }, failuresForm),
	wire.Bool("stragglers", func(r *Request) *bool { return &r.Stragglers }).
		About("stragglers stretches tasks as Alibaba measured training steps to vary; for policies that place "+
			"tasks alone."),
	wire.Micros("switch_s", func(r *Request) *int64 { return &r.SwitchUs }, 0).
		About("switch_s is lost when a GPU begins a task of another job than its last one; leases have "+
			"restart_s.").Default(0),
	wire.Micros("plan_latency_s", func(r *Request) *int64 { return &r.PlanLatencyUs }, 0).
		About("plan_latency_s is how long a plan of rolling takes: it is followed from the first event on that is "+
			"so long after the event at which it was asked for, and the plan before holds until then.").Default(0),
	wire.NewField("parameters", wire.MapOf(wire.Schema{"type": "object", "additionalProperties": wire.Schema{}}),
		readParameters, writeParameters).
		About("parameters are those of policies of tasks, by the policy's name, as a session takes them (GET "+
			"/v1/policies); aside is left out, since plan_latency_s decides it. Policies that are told sizes take "+
			"theirs only with sizes estimates. Policies of leases, elastic policies and antman have some of their own, "+
			"which hare simulate policies NAME lists.").
		Example(wire.Schema{"rolling": wire.Schema{"fifo_slowdown": 1}}),
	wire.OneOf("sizes", func(r *Request) *string { return &r.Sizes }, SizesExact, SizesEstimates).
		About("sizes estimates tells no policy of tasks how long jobs take: those that know sizes or the future go by "+
			"estimate_s and class of the jobs, and by the jobs that ended, as in a session.").Default(SizesExact),
	wire.Bool("cdf", func(r *Request) *bool { return &r.CDF }).About("cdf asks for the distribution of completion "+
		"times."),
	wire.OneOf("detail", func(r *Request) *string { return &r.Detail }, DetailRuns, DetailJobs).
		About("detail jobs asks for the figures of every job.").Default(DetailRuns),
	wire.TimeLimit("time_limit_s", func(r *Request) *time.Duration { return &r.TimeLimit }, 1).
		About("time_limit_s covers waiting in the queue too; left out: the server's."),
	wire.NameField(func(r *Request) *string { return &r.Name }),
	wire.StringMap("labels", func(r *Request) *map[string]string { return &r.Labels }, MaxLabels).
		About("labels are the caller's own, and come back with the report."),
	wire.OneOf("bound", func(r *Request) *string { return &r.Bound }, BoundNever, BoundAuto, BoundAlways).
		About("bound auto adds the certified bound of what policies of tasks played, where there are few enough "+
			"jobs for some seconds; always does so for any number.").Default(BoundNever),
)

// What policies of tasks that know sizes are told of them.
const (
	SizesExact     = "exact"
	SizesEstimates = "estimates"
)

// When the jobs of a simulation are bounded.
const (
	BoundNever  = "never"
	BoundAuto   = "auto"
	BoundAlways = "always"
)

var traceForm = wire.NewTable("SimulationTrace",
	"SimulationTrace is a text of jobs, one a line. One of name and text is needed.",
	wire.String("name", func(t *Trace) *string { return &t.Name }).
		About("name is that of a trace that comes with the program, or a part of it that no other "+
			"has.").Example("max_min_fairness"),
	wire.Text("text", func(t *Trace) *[]byte { return &t.Text }),
	wire.String("format", func(t *Trace) *string { return &t.Format }).
		About("format, left out: the columns tell.").With("enum",
		[]string{"gavel", "openb", "philly", "pollux", "shockwave"}),
	wire.Text("table", func(t *Trace) *[]byte { return &t.Table }).
		About("table is the format's second text: step rates for gavel and shockwave, step times for pollux, nodes "+
			"for "+
			"openb; left out: the one that comes with the program."),
	wire.String("table_name", func(t *Trace) *string { return &t.TableName }).
		About("table_name is in place of table: one that comes with the program."),
	wire.Micros("quantum_s", func(t *Trace) *int64 { return &t.QuantumUs }, 1).
		About("quantum_s is how long a round of merged steps takes on a job's fastest type.").Default(60),
	wire.OneOf("sync", func(t *Trace) *string { return &t.Sync }, "gang", "rigid").
		About("sync is for policies that place tasks.").Default("gang"),
).Check(func(t *Trace, _ wire.Members, found *hare.InvalidErrors) {
	switch {
	case t.Name == "" && t.Text == nil:
		found.Add("", "missing_field", `give "text", one job a line, or "name" of a trace that comes with the program`)
	case t.Name != "" && t.Text != nil:
		found.Add("", "not_allowed", `give "text" or "name", not both: a name is that of a trace that comes with the `+
			`program`)
	}
	if t.Table != nil && t.TableName != "" {
		found.Add("", "not_allowed", `give "table" or "table_name", not both`)
	}
})

var generateForm = wire.NewTable("SimulationGenerate",
	"SimulationGenerate draws an instance for every repeat, as hare generate does.",
	wire.Integer("jobs", func(g *Generate) *int64 { return &g.Jobs }, 1, hare.MaxExact).Default(200).With("maximum",
		100000),
	wire.String("arrivals", func(g *Generate) *string { return &g.Arrivals }).
		About("arrivals is none (all at 0), poisson:RATE in jobs a second, or uniform:SPAN, evenly at random over "+
			"SPAN "+
			"seconds.").
		Default("none").Example("uniform:1200"),
	wire.OneOf("sync", func(g *Generate) *string { return &g.Sync }, "relaxed", "gang", "rigid").Default("relaxed"),
	wire.Micros("grain_s", func(g *Generate) *int64 { return &g.GrainUs }, 1).
		About("grain_s is what times are rounded to.").Default(1).With("maximum", 1000),
)

var faultForm = wire.NewTable("SimulationFault",
	"SimulationFault takes a GPU or a whole node out of service. One of gpu and node is needed.",
	wire.String("gpu", func(f *Fault) *string { return &f.GPU }).
		About("gpu is node/index. A cluster that is given as gpus has a node a type, named as that in lower "+
			"case.").Example("a/0"),
	wire.String("node", func(f *Fault) *string { return &f.Node }),
	wire.Micros("from_s", func(f *Fault) *int64 { return &f.FromUs }, 0).Needed(),
	wire.NewField("until_s", wire.Schema{"type": []string{"number", "null"}, "format": "double",
		"exclusiveMinimum": 0},
		readUntil, writeUntil).
		About("until_s is when it returns; null or left out: never."),
).Check(func(f *Fault, has wire.Members, found *hare.InvalidErrors) {
	if !has.Has("until_s") {
		f.UntilUs = hare.Forever
	}
	switch {
	case f.GPU != "" && f.Node != "":
		found.Add("", "not_allowed", `give "gpu" or "node", not both`)
	case f.GPU == "" && f.Node == "":
		found.Add("", "missing_field", `give "gpu", as node/index, or "node"`)
	case !has.Has("from_s"):
		found.Add("", "missing_field", `"from_s" is missing: say when it leaves`)
	case has.Sound && f.UntilUs <= f.FromUs:
		found.Add("/until_s", "out_of_range", "it must return after it left; leave until_s out where it never does")
	}
})

var faultRateForm = wire.NewTable("SimulationFaultRate", "SimulationFaultRate makes GPUs, and nodes, fail and "+
	"return by chance, after exponential times of these means. A mean between failures goes with one to repair. "+
	"Nodes "+
	"are for policies that place tasks alone.",
	wire.Micros("gpu_mean_s", func(r *FaultRate) *int64 { return &r.GPUMeanUs }, 1),
	wire.Micros("gpu_repair_s", func(r *FaultRate) *int64 { return &r.GPURepairUs }, 1),
	wire.Micros("node_mean_s", func(r *FaultRate) *int64 { return &r.NodeMeanUs }, 1),
	wire.Micros("node_repair_s", func(r *FaultRate) *int64 { return &r.NodeRepairUs }, 1),
).Check(func(r *FaultRate, has wire.Members, found *hare.InvalidErrors) {
	if has.Sound && ((r.GPUMeanUs == 0) != (r.GPURepairUs == 0) || (r.NodeMeanUs == 0) != (r.NodeRepairUs == 0)) {
		found.Add("", "missing_field", "a mean time between failures goes with one to repair: give both, or neither")
	}
})

var failuresForm = wire.NewTable("SimulationFailures",
	"SimulationFailures make tasks fail and start again; for policies that place tasks alone.",
	wire.NewField("probability", wire.Schema{"type": "number", "format": "double", "minimum": 0}, readProbability,
		writeProbability).
		About("probability that a task fails, less than 1.").With("exclusiveMaximum", 1),
	wire.NewField("per_gpu_hour", wire.Schema{"type": "number", "format": "double", "minimum": 0}, readPerGPUHour,
		writePerGPUHour).
		About("per_gpu_hour is how many tasks fail for each hour that a GPU computes."),
)

// Decode reads the document of a simulation, strictly, every fault with a pointer.
// Names of policies, traces and formats are not looked up.
func Decode(r io.Reader, lim wire.Limits) (*Request, error) {
	req := &Request{}
	if err := Form.Decode(wire.NewReader(r, lim), req); err != nil {
		return nil, err
	}
	return req, nil
}

// EncodeJSON writes the document that Decode reads.
func (r *Request) EncodeJSON(w io.Writer) error {
	if len(r.Policies) == 0 {
		return errors.New("hare: a simulation without policies")
	}
	doc := *r
	if t := r.Trace; t != nil {
		sent := *t
		if t.Text != nil {
			sent.Name = ""
		}
		if t.Table != nil {
			sent.TableName = ""
		}
		doc.Trace = &sent
	}
	_, err := w.Write(append(Form.Append(nil, &doc), '\n'))
	return err
}
