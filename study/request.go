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
	// Generate generates a new instance for every repeat, whose seed is the sum of
	// Generate.Seed and the repeat's. Request.GPUs replaces the GPUs of Generate.
	Generate *trace.GenerateConfig
	// GPUs or Cluster is where the jobs run. Without either, the jobs run on the
	// cluster of the instance, or on the default cluster of the trace's format. Leases
	// need GPUs that are always in service, and use only the counts of a Cluster.
	GPUs    []hare.TypeCount
	Cluster *hare.Cluster
	// First and Last are the numbers, by arrival from 0, of the jobs that count.
	// Last zero means all jobs.
	First, Last int
	// Seed is the seed of the first repeat, and Seed+1 the seed of the second.
	Seed uint64
	// Repeat is how often each policy runs; zero means once.
	Repeat int
	// LeaseS, ResetS and RestartS are used by leases alone, and are in seconds.
	// LeaseS is how long a gang holds its GPUs; zero means 360. ResetS is the least
	// time between two allocations of the GPUs. RestartS is the time that a lease on
	// other GPUs than before loses.
	LeaseS, ResetS, RestartS float64
	// Merge makes the simulation faster: as many rounds of a gang job of Instance or
	// Generate as take this long on its fastest type are simulated as one round, and
	// all rounds of a rigid job. Task policies then stop gangs only between merged
	// rounds. Zero merges nothing. Traces have Quantum instead.
	Merge time.Duration
	World World
	// IntervalS is how often elastic policies decide, in whole seconds; zero means 60.
	// For elastic policies a RestartS of zero means 30. They need a Pollux workload.
	IntervalS float64
	// Prices are what an hour of a GPU costs, by type. Policies of cost need a price
	// for every type of the cluster; nil means lease.GavelPrices.
	Prices map[string]float64
	// CDF asks for the distribution of completion times.
	CDF bool
	// Labels are copied to the report.
	Labels map[string]string
	// Bound is simulation.BoundNever (also when empty), BoundAuto or BoundAlways.
	Bound string
	// Record keeps the runs of task policies as results, in Run.Result.
	Record bool
}

// DefaultResetS is Gavel's least time between two allocations, in seconds.
const DefaultResetS = 1920

// Trace is a trace of jobs, as text.
type Trace struct {
	// Name is the name of a shipped trace where Text is nil. With a Text, messages use
	// Name for the text.
	Name string
	Text []byte
	// Format is one of trace.Formats; empty means the format that the columns show.
	Format string
	// Table is the second text of the format: step rates for gavel and shockwave, step
	// times for pollux, nodes for openb. Nil means the shipped table.
	Table     []byte
	TableName string
	// Quantum is how long a round of merged steps takes on a job's fastest type. Zero
	// means 60 s, or as many minutes as keep the trace below about 10 million tasks.
	// Formats with step rates give leases the steps themselves.
	Quantum time.Duration
	// Sync is gang (default) or rigid, and is used by task policies alone.
	Sync string
}

// Limits of a request.
const (
	MaxPolicies = 64
	MaxRepeat   = 1000
	// maxPrice is the greatest price that the JSON form can hold.
	maxPrice = hare.MaxExact / 1e6
)

// Config configures how simulations run. Apart from the LP engine, no field changes
// the results.
type Config struct {
	// Solver has the LP engine, its name, and the version for recorded results.
	Solver solver.Config
	// Parallel is how many runs are simulated at a time; zero means one.
	Parallel int
	// Timed adds the wall time of runs: WallS and JobsPerS.
	Timed bool
	// Progress is called from time to time, from one goroutine at a time. Nil means
	// that progress is not reported.
	Progress func(simulation.Progress)
	// Limits refuses requests that are too large; the zero value limits nothing.
	Limits Limits
	// Ended is called when a run has ended with figures, from one goroutine at a time,
	// with the run's index in the report. Ended must not keep the run. An error of
	// Ended ends the simulation. Ended may be nil.
	Ended func(int, *Run) error
}

// Validate finds all faults that can be found before the trace is read. The error
// is hare.InvalidErrors, with pointers into the request's JSON form.
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
		bad("", "one_source", "give one of trace, instance and generate: they say which jobs there are, and here "+
			"are %d",
			sources)
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

// checkPrices finds prices that are out of range. Whether all types of the cluster
// have a price is known only when the jobs are read.
func (r *Request) checkPrices(bad func(pointer, code, format string, a ...any)) {
	for _, name := range slices.Sorted(maps.Keys(r.Prices)) {
		if v := r.Prices[name]; !(v > 0 && v <= maxPrice) { // also NaN
			bad(string(jsontext.Pointer("/prices").AppendToken(name)), "out_of_range",
				"the price of an hour of a GPU is more than 0 and at most %v", float64(maxPrice))
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

// NewReport returns the empty report on r.
func (r *Request) NewReport() *Report {
	return &Report{Runs: make([]Run, 0, r.CountRuns()), Summary: simulation.Summary{Labels: r.Labels}}
}

// RequestOf returns the request of a document.
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
		LeaseS: seconds(doc.LeaseUs, 0), ResetS: seconds(doc.ResetUs, DefaultResetS),
		RestartS: seconds(doc.RestartUs, 0),
		Merge:    time.Duration(doc.MergeUs) * time.Microsecond, CDF: doc.CDF, Labels: doc.Labels, Bound: doc.Bound,
		World: World{
			FaultRate: sim.FaultRate(doc.FaultRate),
			Failures: sim.FailureRate{Probability: float64(doc.Failures.ProbabilityMicro) / 1e6,
				PerGPUHour: float64(doc.Failures.PerGPUHourMicro) / 1e6},
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
		r.Trace = &Trace{Name: t.Name, Format: t.Format, TableName: t.TableName,
			Quantum: time.Duration(t.QuantumUs) * time.Microsecond, Sync: t.Sync}
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

// Document returns the document of a request that Validate accepts. RequestOf
// returns r again, except that numbers are rounded to millionths and that documents
// have no Record.
func (r *Request) Document() *simulation.Request {
	micros := func(s float64) int64 { return int64(math.Round(s * 1e6)) }
	time := func(s float64) *int64 {
		us := micros(s)
		return &us
	}
	doc := &simulation.Request{
		Policies: r.Policies, Instance: r.Instance, GPUs: r.GPUs, Cluster: r.Cluster,
		First: int64(r.First), Last: int64(r.Last), Seed: int64(r.Seed), Repeat: int64(r.Repeat),
		ResetUs: time(r.ResetS), RestartUs: time(r.RestartS), IntervalS: int64(r.IntervalS),
		MergeUs: r.Merge.Microseconds(),
		CDF:     r.CDF, Labels: r.Labels, Bound: r.Bound,
		FaultRate: simulation.FaultRate(r.World.FaultRate), Stragglers: r.World.Stragglers,
		SwitchUs: micros(r.World.SwitchS),
		Failures: simulation.Failures{ProbabilityMicro: micros(r.World.Failures.Probability),
			PerGPUHourMicro: micros(r.World.Failures.PerGPUHour)},
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
		doc.Trace = &simulation.Trace{Name: t.Name, Format: t.Format, TableName: t.TableName,
			QuantumUs: t.Quantum.Microseconds(), Sync: t.Sync}
		if t.Text != nil {
			doc.Trace.Name, doc.Trace.Text = "", string(t.Text)
		}
		if t.Table != nil {
			doc.Trace.TableName, doc.Trace.Table = "", string(t.Table)
		}
	}
	if g := r.Generate; g != nil {
		doc.Generate = &simulation.Generate{Jobs: int64(g.Jobs), Arrivals: g.Arrivals, Sync: g.Sync,
			GrainUs: g.GrainUs}
	}
	return doc
}
