package study

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/study/simulation"
	"github.com/hare-sched/hare/trace"
)

// Request says which jobs are played to which policies, and on what.
// One of Trace, Instance and Generate gives the jobs.
type Request struct {
	// Policies are names that policy.Find knows, of any engine, none twice.
	Policies []string
	Trace    *Trace
	Instance *hare.Instance
	// Generate draws an instance anew for every repeat: its Seed is added to the
	// repeat's. GPUs, where given, replaces its own.
	Generate *trace.GenerateConfig
	// GPUs or Cluster is where the jobs run. Without either it is the cluster of
	// the instance, or the one that comes with the trace's format. Leases are of
	// GPUs that are always in service; they take the counts of a Cluster alone.
	GPUs    []hare.TypeCount
	Cluster *hare.Cluster
	// First and Last are the numbers, by arrival from 0, of the jobs that count.
	// Last zero means all jobs.
	First, Last int
	// Seed is of all draws of the first repeat, Seed+1 of the second.
	Seed uint64
	// Repeat is how often each policy runs; zero means once.
	Repeat int
	// LeaseS is how long a gang holds its GPUs, ResetS the least time between two
	// divisions of the GPUs, RestartS what a lease on other GPUs than before
	// loses; all in seconds, and of leases alone. LeaseS zero means 360.
	LeaseS, ResetS, RestartS float64
	// Merge, where not zero, simulates as one as many rounds of a gang job of
	// Instance or Generate as take so long on its fastest type, and all of a rigid
	// one, so that the time it takes does not grow with rounds. Policies of tasks
	// then stop gangs between merged rounds alone. Traces have Quantum instead.
	Merge time.Duration
	World World
	// IntervalS is how often policies that change widths are asked, in whole
	// seconds; zero means 60. For them RestartS zero means 30, and they need a
	// Pollux workload.
	IntervalS float64
	// Prices are what an hour of a GPU costs, by type, for policies of cost, which
	// need one of every type of the cluster; nil means lease.GavelPrices.
	Prices map[string]float64
	// CDF asks for the distribution of completion times.
	CDF bool
	// Labels are the caller's own, and come back with the report.
	Labels map[string]string
	// Record keeps runs of tasks as results, in Run.Result.
	Record bool
}

// DefaultResetS is Gavel's least time between two divisions, in seconds.
const DefaultResetS = 1920

// Trace is a text of jobs.
type Trace struct {
	// Name is that of a shipped trace where Text is nil, else what messages call
	// the text.
	Name string
	Text []byte
	// Format is one of trace.Formats; empty means that the columns tell.
	Format string
	// Table is the format's second text: step rates for gavel and shockwave, step
	// times for pollux, nodes for openb. Nil means the one that is shipped.
	Table     []byte
	TableName string
	// Quantum is how long a round of merged steps takes on a job's fastest type;
	// zero means 60 s, and as many minutes as keep a trace to about 10 million
	// tasks where that is too many. Leases of formats with step rates are of the steps
	// themselves.
	Quantum time.Duration
	// Sync is gang (default) or rigid, and for policies of tasks alone.
	Sync string
}

// Limits of a request.
const (
	MaxPolicies = 64
	MaxRepeat   = 1000
	// maxPrice is what documents can say.
	maxPrice = hare.MaxExact / 1e6
)

// Config is what simulations run with. None of it changes what they
// find, but for the LP engine.
type Config struct {
	// Solver has the LP engine, its name, and the version for recorded results.
	Solver solver.Config
	// Parallel is how many runs go on at a time; zero means one.
	Parallel int
	// Timed adds the figures of the clock to runs: WallS and JobsPerS.
	Timed bool
	// Progress is called now and then, from one goroutine at a time; nil means
	// nobody looks.
	Progress func(Progress)
	// Limits refuse what is too large; the zero value limits nothing.
	Limits Limits
	// Ended is called with each run that has figures as it ends, from one
	// goroutine at a time, with its place in the report; it must not keep the
	// run. Its error ends the simulation. Nil means that nobody waits for runs.
	Ended func(int, *Run) error
}

// Progress is how far a simulation is.
type Progress struct {
	Policy     string // of the run that has news
	Seed       uint64
	NowS       float64 // on its clock
	Runs, Done int     // all runs, and those that ended
	// Jobs counts those of all runs; JobsDone of them have ended.
	Jobs, JobsDone int64
	// Events are those of tasks, or rounds of leases, of all runs.
	Events int64
}

// Validate finds all faults that can be known before any text is read. They are
// hare.InvalidErrors, with pointers into the request's JSON form.
func (r *Request) Validate() error {
	var faults hare.InvalidErrors
	bad := func(pointer, code, format string, a ...any) {
		faults = append(faults, &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
	}
	if n := len(r.Policies); n == 0 || n > MaxPolicies {
		bad("/policies", "out_of_range", "name 1 to %d policies, here are %d", MaxPolicies, n)
	}
	var infos []policy.Info
	seen := map[string]bool{}
	for i, name := range r.Policies {
		at := fmt.Sprintf("/policies/%d", i)
		info, err := policy.Find(name)
		switch {
		case err != nil:
			bad(at, "unknown_policy", "%v", err)
		case seen[name]:
			bad(at, "duplicate", "policy %s is named twice", name)
		default:
			infos = append(infos, info)
		}
		seen[name] = true
	}
	sources := 0
	for _, given := range []bool{r.Trace != nil, r.Instance != nil, r.Generate != nil} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		bad("", "one_source", "give one of trace, instance and generate: they say which jobs there are, and here are %d", sources)
	}
	if r.Trace != nil {
		r.Trace.check(bad)
	}
	if r.GPUs != nil && r.Cluster != nil {
		bad("/gpus", "two_clusters", "give gpus or cluster, not both")
	}
	if r.First < 0 || r.Last < r.First {
		bad("/jobs", "out_of_range", "jobs are numbered from 0, and the first of a window is not behind its last")
	}
	if r.Repeat < 0 || r.Repeat > MaxRepeat {
		bad("/repeat", "out_of_range", "repeat is %d; it must be 1 to %d", r.Repeat, MaxRepeat)
	}
	lease := r.leaseS()
	switch {
	case !(lease > 0 && lease <= 1e9): // also NaN
		bad("/lease_s", "out_of_range", "a lease is longer than 0 and at most 1e9 s")
	case !(r.RestartS >= 0 && r.RestartS < lease):
		bad("/restart_s", "out_of_range", "what a restart loses is not negative, and less than a lease")
	}
	if !(r.ResetS >= 0 && r.ResetS <= 1e9) {
		bad("/reset_s", "out_of_range", "the time between two divisions is from 0 to 1e9 s")
	}
	if r.Merge < 0 || r.Merge > 0 && r.Trace != nil {
		bad("/merge_s", "out_of_range", "rounds are merged for more than 0 s, and those of a trace by its quantum")
	}
	r.checkPrices(bad)
	r.World.check(infos, bad)
	r.checkElastic(infos, bad)
	if faults != nil {
		return faults
	}
	return nil
}

func (t *Trace) check(bad func(pointer, code, format string, a ...any)) {
	if t.Text == nil {
		if _, err := trace.Shipped(t.Name); err != nil {
			bad("/trace/name", "unknown_trace", "%v", err)
		}
	}
	if t.Format != "" {
		if err := trace.CheckFormat(t.Format); err != nil {
			bad("/trace/format", "unknown_format", "%v", err)
		}
	}
	if t.Sync != "" && t.Sync != "gang" && t.Sync != "rigid" {
		bad("/trace/sync", "unknown_sync", "sync is %q; steps of a trace are gang or rigid", t.Sync)
	}
	if t.Quantum < 0 {
		bad("/trace/quantum_s", "out_of_range", "a round of merged steps takes longer than 0 s")
	}
}

// checkPrices finds prices that are none. Whether all types of the cluster have
// one is known when the jobs are read.
func (r *Request) checkPrices(bad func(pointer, code, format string, a ...any)) {
	for _, name := range slices.Sorted(maps.Keys(r.Prices)) {
		if v := r.Prices[name]; !(v > 0 && v <= maxPrice) { // also NaN
			bad(string(jsontext.Pointer("/prices").AppendToken(name)), "out_of_range", "the price of an hour of a GPU is more than 0 and at most %v", float64(maxPrice))
		}
	}
}

func (r *Request) leaseS() float64 {
	if r.LeaseS == 0 {
		return 360
	}
	return r.LeaseS
}

func (r *Request) repeats() int { return max(1, r.Repeat) }

// NewReport begins the report on r.
func (r *Request) NewReport() *Report {
	return &Report{Runs: make([]Run, 0, r.CountRuns()), Summary: simulation.Summary{Labels: r.Labels}}
}

// RequestOf is the request that a document asks for.
func RequestOf(doc *simulation.Request) *Request {
	seconds := func(us *int64, none float64) float64 {
		if us == nil {
			return none
		}
		return float64(*us) / 1e6
	}
	r := &Request{
		Policies: doc.Policies, Instance: doc.Instance, GPUs: doc.GPUs, Cluster: doc.Cluster,
		First: int(doc.First), Last: int(doc.Last), Seed: uint64(doc.Seed), Repeat: int(doc.Repeat),
		LeaseS: seconds(doc.LeaseUs, 0), ResetS: seconds(doc.ResetUs, DefaultResetS), RestartS: seconds(doc.RestartUs, 0),
		Merge: time.Duration(doc.MergeUs) * time.Microsecond, CDF: doc.CDF, Labels: doc.Labels,
		World: World{
			FaultRate:  sim.FaultRate(doc.FaultRate),
			Failures:   sim.FailureRate{Probability: float64(doc.Failures.ProbabilityMicro) / 1e6, PerGPUHour: float64(doc.Failures.PerGPUHourMicro) / 1e6},
			Stragglers: doc.Stragglers, SwitchS: float64(doc.SwitchUs) / 1e6,
		},
	}
	r.IntervalS = float64(doc.IntervalS)
	if doc.Prices != nil {
		r.Prices = map[string]float64{}
	}
	for _, p := range doc.Prices {
		r.Prices[p.Type] = float64(p.Micro) / 1e6
	}
	for _, f := range doc.Faults {
		r.World.Faults = append(r.World.Faults, sim.Fault(f))
	}
	if t := doc.Trace; t != nil {
		r.Trace = &Trace{Name: t.Name, Format: t.Format, TableName: t.TableName, Quantum: time.Duration(t.QuantumUs) * time.Microsecond, Sync: t.Sync}
		if t.Text != "" {
			r.Trace.Name, r.Trace.Text = "trace", []byte(t.Text)
		}
		if t.Table != "" {
			r.Trace.TableName, r.Trace.Table = "table", []byte(t.Table)
		}
	}
	if g := doc.Generate; g != nil {
		r.Generate = &trace.GenerateConfig{Jobs: int(g.Jobs), Arrivals: g.Arrivals, Sync: g.Sync, GrainUs: g.GrainUs}
	}
	return r
}

// Document is the document that asks for r, where Validate accepts it:
// RequestOf of it is r, but for what is less than a millionth, and for Record,
// which no document has.
func (r *Request) Document() *simulation.Request {
	micros := func(s float64) int64 { return int64(math.Round(s * 1e6)) }
	time := func(s float64) *int64 {
		us := micros(s)
		return &us
	}
	doc := &simulation.Request{
		Policies: r.Policies, Instance: r.Instance, GPUs: r.GPUs, Cluster: r.Cluster,
		First: int64(r.First), Last: int64(r.Last), Seed: int64(r.Seed), Repeat: int64(r.Repeat),
		ResetUs: time(r.ResetS), RestartUs: time(r.RestartS), IntervalS: int64(r.IntervalS), MergeUs: r.Merge.Microseconds(), CDF: r.CDF, Labels: r.Labels,
		FaultRate: simulation.FaultRate(r.World.FaultRate), Stragglers: r.World.Stragglers, SwitchUs: micros(r.World.SwitchS),
		Failures: simulation.Failures{ProbabilityMicro: micros(r.World.Failures.Probability), PerGPUHourMicro: micros(r.World.Failures.PerGPUHour)},
	}
	if r.LeaseS != 0 {
		doc.LeaseUs = time(r.LeaseS)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Prices)) {
		doc.Prices = append(doc.Prices, simulation.TypePrice{Type: name, Micro: micros(r.Prices[name])})
	}
	for _, f := range r.World.Faults {
		doc.Faults = append(doc.Faults, simulation.Fault(f))
	}
	if t := r.Trace; t != nil {
		doc.Trace = &simulation.Trace{Name: t.Name, Format: t.Format, TableName: t.TableName, QuantumUs: t.Quantum.Microseconds(), Sync: t.Sync}
		if t.Text != nil {
			doc.Trace.Name, doc.Trace.Text = "", string(t.Text)
		}
		if t.Table != nil {
			doc.Trace.TableName, doc.Trace.Table = "", string(t.Table)
		}
	}
	if g := r.Generate; g != nil {
		doc.Generate = &simulation.Generate{Jobs: int64(g.Jobs), Arrivals: g.Arrivals, Sync: g.Sync, GrainUs: g.GrainUs}
	}
	return doc
}
