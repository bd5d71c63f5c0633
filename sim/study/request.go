package study

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// request is a simulatedoc.Request with what this package makes of it.
type request simulatedoc.Request

// jobsTrace is a simulatedoc.Trace with what this package makes of it.
type jobsTrace simulatedoc.Trace

// Limits of a request.
const (
	MaxPolicies = 64
	MaxRepeat   = 1000
	maxTimeUs   = 1e15 // of leases
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
	Progress func(simulatedoc.Progress)
	// Limits refuses requests that are too large; the zero value limits nothing.
	Limits Limits
	// Record keeps the runs of task policies as results, in Run.Result.
	Record bool
	// Ended is called when a run has ended with figures, from one goroutine at a time,
	// with the run's index in the report. Ended must not keep the run. An error of
	// Ended ends the simulation. Ended may be nil.
	Ended func(int, *Run) error
}

// Validate finds all faults that can be found before the trace is read. The error
// is hare.InvalidErrors, with pointers into the request's JSON form.
func Validate(req *simulatedoc.Request) error {
	r := (*request)(req)
	var faults hare.InvalidErrors
	bad := func(pointer, code, format string, a ...any) {
		faults = append(faults, &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)})
	}
	if n := len(r.Policies); n == 0 || n > MaxPolicies {
		bad("/policies", "out_of_range", "name 1 to %d policies, here are %d", MaxPolicies, n)
	}
	var infos []registry.Info
	seen := map[string]bool{}
	for i, name := range r.Policies {
		at := fmt.Sprintf("/policies/%d", i)
		info, err := registry.Find(name)
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
		(*jobsTrace)(r.Trace).check(bad)
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
	lease, restart, reset := r.leaseUs(), r.restartUs(), r.resetUs()
	switch {
	case lease <= 0 || lease > maxTimeUs:
		bad("/lease_s", "out_of_range", "a lease is longer than 0 and at most 1e9 s")
	case restart < 0 || restart >= lease:
		bad("/restart_s", "out_of_range", "what a restart loses is not negative, and less than a lease")
	}
	if reset < 0 || reset > maxTimeUs {
		bad("/reset_s", "out_of_range", "the time between two divisions is from 0 to 1e9 s")
	}
	if r.MergeUs < 0 || r.MergeUs > 0 && r.Trace != nil {
		bad("/merge_s", "out_of_range", "rounds are merged for more than 0 s, and those of a trace by its quantum")
	}
	if r.Sizes != "" && r.Sizes != simulatedoc.SizesExact && r.Sizes != simulatedoc.SizesEstimates {
		bad("/sizes", "unknown_value", "sizes is %q; policies are told exact sizes, or go by estimates", r.Sizes)
	}
	r.checkParameters(bad)
	r.checkRules(infos, bad)
	r.checkPrices(bad)
	r.checkWorld(infos, bad)
	r.checkElastic(infos, bad)
	r.checkShared(infos, bad)
	if faults != nil {
		return faults
	}
	return nil
}

func (t *jobsTrace) check(bad func(pointer, code, format string, a ...any)) {
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
	if t.QuantumUs < 0 {
		bad("/trace/quantum_s", "out_of_range", "a round of merged steps takes longer than 0 s")
	}
}

// checkParameters finds parameters that a policy does not take.
func (rq *request) checkParameters(bad func(pointer, code, format string, a ...any)) {
	for _, name := range slices.Sorted(maps.Keys(rq.Parameters)) {
		at := string(jsontext.Pointer("/parameters").AppendToken(name))
		if !slices.Contains(rq.Policies, name) {
			bad(at, "unknown_policy", "parameters are of the policies that are named, and %.60q is not", name)
			continue
		}
		_, err := rq.parametersOf(name)
		var fault *hare.InvalidError
		if errors.As(err, &fault) {
			bad(at+fault.Pointer, fault.Code, "%s", fault.Detail)
		}
	}
}

// parametersOf are the parameters with which a policy is made; nil means none.
func (rq *request) parametersOf(name string) (json.RawMessage, error) {
	if rq.Parameters[name] == nil {
		return nil, nil
	}
	return registry.SimulationParameters(name, rq.Parameters[name], rq.estimates(), rq.PlanLatencyUs > 0)
}

// parametersNote says with which parameters policies were made.
func (rq *request) parametersNote() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(rq.Parameters)) {
		notes = append(notes, fmt.Sprintf("parameters: %s has %s", name, rq.Parameters[name]))
	}
	return notes
}

// checkRules finds rules of the instance, and of the cluster that takes the place of its own, by
// which a policy or its engine does not go.
func (rq *request) checkRules(infos []registry.Info, bad func(pointer, code, format string, a ...any)) {
	inst := hare.Instance{}
	if rq.Instance != nil {
		inst = *rq.Instance
	}
	switch {
	case rq.Cluster != nil:
		inst.Cluster = *rq.Cluster
	case rq.GPUs != nil:
		inst.Cluster = nodesOf(rq.GPUs)
	}
	for _, info := range infos {
		var fault *hare.InvalidError
		if err := info.CheckRules(&inst, rq.estimates()); !errors.As(err, &fault) {
			continue
		}
		at := fault.Pointer
		if rq.Cluster == nil || !strings.HasPrefix(at, "/cluster") {
			at = "/instance" + at
		}
		bad(at, fault.Code, "%s", fault.Detail)
		return
	}
}

// checkPrices finds prices that are out of range. Whether all types of the cluster
// have a price is known only when the jobs are read.
func (rq *request) checkPrices(bad func(pointer, code, format string, a ...any)) {
	for _, p := range rq.Prices {
		if p.Micro <= 0 || p.Micro > hare.MaxExact {
			bad(string(jsontext.Pointer("/prices").AppendToken(p.Type)), "out_of_range",
				"the price of an hour of a GPU is more than 0 and at most %v", float64(hare.MaxExact)/1e6)
		}
	}
}

// priceByType returns the prices as policies take them; nil means the default.
func (rq *request) priceByType() map[string]float64 {
	if rq.Prices == nil {
		return nil
	}
	prices := map[string]float64{}
	for _, p := range rq.Prices {
		prices[p.Type] = float64(p.Micro) / 1e6
	}
	return prices
}

func (rq *request) leaseUs() int64   { return orDefault(rq.LeaseUs, 360e6) }
func (rq *request) resetUs() int64   { return orDefault(rq.ResetUs, 1920e6) } // Gavel's
func (rq *request) restartUs() int64 { return orDefault(rq.RestartUs, 0) }

// estimates reports whether policies of tasks are told no sizes.
func (rq *request) estimates() bool { return rq.Sizes == simulatedoc.SizesEstimates }

// sizesNote says which policies know sizes although the others go by estimates, and how
// many jobs carry what policies may go by.
func (rq *request) sizesNote(in *jobsInput, infos []registry.Info) []string {
	if !rq.estimates() {
		return nil
	}
	var notes, told []string
	for _, info := range infos {
		if info.Engine != registry.Task && info.Knows == policies.Sizes {
			told = append(told, info.Name)
		}
	}
	if told != nil {
		notes = append(notes, "sizes: only policies of tasks go by estimates; "+strings.Join(told, ", ")+" knows sizes")
	}
	if in.tasks == nil {
		return notes
	}
	hinted := 0
	for i := range in.tasks.Jobs {
		if in.tasks.Jobs[i].Hints != nil {
			hinted++
		}
	}
	return append(notes, fmt.Sprintf("sizes: %d of %d jobs carry estimate_s or class, and policies of tasks learn from "+
		"the jobs that end", hinted, len(in.tasks.Jobs)))
}

func orDefault(us *int64, none int64) int64 {
	if us == nil {
		return none
	}
	return *us
}

// workUs is the part of a lease in which a job makes progress after a restart.
func (rq *request) workUs() int64 { return rq.leaseUs() - rq.restartUs() }

func seconds(us int64) float64 { return float64(us) / 1e6 }

func (rq *request) repeats() int { return max(1, int(rq.Repeat)) }

func (rq *request) countRuns() int { return len(rq.Policies) * rq.repeats() }

// NewReport returns the empty report on a request.
func NewReport(req *simulatedoc.Request) *Report {
	return &Report{Runs: make([]Run, 0, CountRuns(req)), Summary: simulatedoc.Summary{Labels: req.Labels}}
}
