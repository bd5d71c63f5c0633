// Package experiment repeats the experiments of the papers: every policy runs the same
// instances, and each run is compared with a certified lower bound. No setting is tuned
// to reproduce a published figure.
package experiment

import (
	"encoding/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
)

// Config tunes a run. The zero value is the experiment as it is described.
type Config struct {
	// Solver computes the bounds. Policies that solve LPs use Solver.LP, too. A
	// Solver.BoundWork of zero means 5,000.
	Solver solver.Config
	// Policies replaces the schemes of the experiment by these policies with default
	// settings; nil keeps the schemes.
	Policies []string
	// Parameters are those of the policies of Policies, by name, as JSON as in sessions.
	Parameters map[string]json.RawMessage
	// Instances replaces the cases of the experiment; nil keeps them.
	Instances []Case
	// Scale divides the jobs and GPUs of the instances; zero means 1.
	Scale int
	// Repeat is the number of instances over which each figure is a mean; their seeds follow
	// each other from FirstSeed on. Zero means 5 and 1.
	Repeat    int
	FirstSeed uint64
	// Moves is the work of hare_offline's search. Zero means the policy's default, and a
	// negative number means no search.
	Moves int64
	// PlanLatencyUs replaces sim.Config.PlanLatencyUs of the cases where it is above zero.
	PlanLatencyUs int64
	// Parallel is the number of runs that go on side by side; zero means 1. The report does
	// not depend on Parallel.
	Parallel int
	// Unfinished is a file that keeps the figures of the runs of a Measurement as they end, so that a
	// measurement that was interrupted goes on with the runs that are left. Empty means none.
	Unfinished string
	// Check is called with each run as a result with its certificate, before the figures of
	// the run are kept. Up to Parallel goroutines call Check at once. Nil checks nothing. The
	// command hare experiment sets Check to the verifier.
	Check func(*hare.Instance, *hare.Result) error
	// Progress is called before each bound and each run, one call at a time. Progress may be
	// nil.
	Progress func(Progress)
}

// Progress says how far an experiment is.
type Progress struct {
	Done, Total int    // the number of bounds and runs
	Text        string // the bound or run that begins
}

// Scheme is a policy with its settings.
type Scheme struct {
	Policy string
	// Name is the name of the scheme in tables; empty means Policy.
	Name   string
	Config policies.Config // the run fills in LP
}

// Case is an instance with the settings of its simulation. The settings are the same for
// all schemes.
type Case struct {
	Group string // each group has its own tables and pictures
	// X is the value that is swept. Variant is another difference between the cases of a
	// group; each variant has its own lines in tables and pictures.
	X       float64
	Variant string
	// Seed numbers the instances of one X and Variant. Figures are means over all seeds, and
	// schemes are compared on equal seeds.
	Seed uint64
	Inst *hare.Instance // the instance that is simulated
	// Estimated is the instance that the policies see, whose times may differ from those of
	// Inst; nil means Inst.
	Estimated *hare.Instance
	// Hints are what users say of the jobs, by ID; nil means that they say nothing.
	Hints map[string]*hare.JobHints
	// ThresholdUs is the threshold of the first queue for all policies with queues; zero
	// means the default of each policy.
	ThresholdUs int64
	// Sim holds the settings of the simulator. The run fills in Sim.Name.
	Sim sim.Config
}

// Info describes an experiment.
type Info struct {
	Name string
	// Title is a headline. Text describes the question and the instances.
	Title, Text string
	// Published quotes the papers' figures and says what the papers compare.
	Published string
	// axis says what X is, with its unit; axis is empty if nothing is swept.
	axis        string
	logarithmic bool // the axis is logarithmic
	// measures have a picture each, and tables have a column for each. Nil means the weighted
	// JCT, and the weighted JCT over the bound.
	measures []measure
	cdf      bool // the pictures are CDFs of the JCT
	schemes  []Scheme
	cases    func(set) ([]Case, error)
	// leaseSchemes and leaseCases are in the place of schemes and cases for policies of leases.
	leaseSchemes []leaseScheme
	leaseCases   func(scale int) ([]leaseCase, error)
}

// All lists the experiments.
func All() []Info {
	return []Info{
		weightedJCT, algorithm1, cdf, gpuSweep, jobSweep, heterogeneity, mix, syncs, placements,
		streams, hintedStreams, hgittinsRules, guards, kappas, slowdowns, planLatency, planEvery, disturbedStreams,
		clairvoyance, thresholds, starvation, switchCost, profileErrors, stragglers, faults, hadars, hadarEs,
	}
}

// Names lists the names of the experiments and the measurements.
func Names() []string {
	var names []string
	for _, x := range All() {
		names = append(names, x.Name)
	}
	for _, m := range Measurements() {
		names = append(names, m.Name)
	}
	return names
}

// Find returns the named experiment, or an error that suggests the nearest name.
func Find(name string) (Info, error) {
	for _, x := range All() {
		if x.Name == name {
			return x, nil
		}
	}
	return Info{}, unknown(name)
}

// named returns the schemes of policies with default settings.
func named(names ...string) []Scheme {
	var all []Scheme
	for _, n := range names {
		all = append(all, Scheme{Policy: n})
	}
	return all
}

func (sc *Scheme) name() string {
	if sc.Name != "" {
		return sc.Name
	}
	return sc.Policy
}
