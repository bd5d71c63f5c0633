// Package experiment repeats the experiments of the papers: every policy runs the same
// instances, and each run is compared with a certified lower bound. No setting is tuned
// to reproduce a published figure.
package experiment

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/policy/task"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/solver"
)

// Config tunes a run. The zero value is the experiment as it is described.
type Config struct {
	// Solver computes the bounds; its LP is also for policies that use one.
	// BoundWork zero means 5,000.
	Solver solver.Config
	// Policies replaces those of the experiment; nil keeps them.
	Policies []string
	// Instances replaces those of the experiment; nil keeps them.
	Instances []Case
	// Scale divides the jobs and GPUs of the instances; zero means 1.
	Scale int
	// Repeat is how many instances each figure is a mean of, seeds 1 to Repeat;
	// zero means 5.
	Repeat int
	// Moves is the work of hare_offline's search; zero means its default, less
	// none.
	Moves int64
	// Parallel is how many runs go on side by side; zero means 1. The report
	// does not depend on it.
	Parallel int
	// Check is called with each run as a result with its certificate, before any
	// of its figures is kept, from several goroutines where Parallel says so; nil
	// checks nothing. The program passes the verifier.
	Check func(*hare.Instance, *hare.Result) error
	// Progress is called before each run, one call at a time; it may be nil.
	Progress func(Progress)
}

// Progress is the progress of an experiment.
type Progress struct {
	Done, Total int // bounds and runs
	Text        string
}

// Scheme is a policy with its settings.
type Scheme struct {
	Policy string
	// Name is what tables call it; empty means Policy.
	Name   string
	Config task.Config // LP is filled in
}

// Case is an instance with the settings of its simulation, which are the same for each
// scheme.
type Case struct {
	Group string // has tables and pictures of its own
	// X is the value that is swept, Variant another difference within a group
	// that has lines of its own.
	X       float64
	Variant string
	// Seed tells the instances of one X and Variant apart: figures are means over
	// them, and schemes are compared on equal seeds.
	Seed uint64
	Inst *hare.Instance
	// Estimated is the instance that the policies see, with other times than Inst, which
	// is simulated; nil means Inst.
	Estimated *hare.Instance
	// ThresholdUs sets that of all policies with queues; zero leaves it.
	ThresholdUs int64
	// Sim is of the simulator; its Name is filled in.
	Sim sim.Config
}

// Info describes an experiment.
type Info struct {
	Name string
	// Title is a headline, Text says what is asked and on what.
	Title, Text string
	// Published are the papers' figures, and what they compare.
	Published string
	// axis is what X is, with its unit; empty where nothing is swept.
	axis        string
	logarithmic bool // the axis
	// measures have a picture each; tables have a column for each that they do
	// not have anyway. Nil means the weighted JCT and that over the bound.
	measures []measure
	cdf      bool // pictures are CDFs of the JCT
	schemes  []Scheme
	cases    func(set) ([]Case, error)
}

// All lists the experiments.
func All() []Info {
	return []Info{
		weightedJCT, algorithm1, cdf, gpuSweep, jobSweep, heterogeneity, mix, syncs,
		clairvoyance, thresholds, starvation, switchCost, profileErrors, stragglers, faults,
	}
}

// Names lists their names.
func Names() []string {
	var names []string
	for _, x := range All() {
		names = append(names, x.Name)
	}
	return names
}

// Find describes the named experiment, or says which name is nearest.
func Find(name string) (Info, error) {
	for _, x := range All() {
		if x.Name == name {
			return x, nil
		}
	}
	hint := "."
	if best := hare.Nearest(name, Names()); best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	return Info{}, fmt.Errorf("unknown experiment %.60q%s The experiments are %s", name, hint, strings.Join(Names(),
		", "))
}

// named are schemes by the names of their policies.
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
