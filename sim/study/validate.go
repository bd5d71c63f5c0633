package study

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// Limits of a request.
const (
	MaxPolicies = 64
	MaxRepeat   = 1000
	maxTimeUs   = 1e15 // of leases
)

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
		bad("/sizes", "unknown_value", "sizes is %q; policies know exact sizes, or go by estimates", r.Sizes)
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
