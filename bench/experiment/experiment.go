// Package experiment repeats the experiments of the papers: every policy runs the same
// instances, and each run is compared with a certified lower bound. No setting is tuned
// to reproduce a published figure.
//
// This file describes experiments and measurements. The files on it make instances
// (instances, streams, estimated), run cases (run, leases, measurement) and write reports
// (rows, tables, pictures, page, write). Each other file has experiments of one question,
// and all.go lists them.
package experiment

import (
	"encoding/json"

	"context"

	"io"

	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
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

// leaseScheme is a policy of leases with its settings.
type leaseScheme struct {
	Policy string
	Name   string // in tables; empty means Policy
	Config leases.Config
	Fork   leases.Fork
}

func (ls *leaseScheme) name() string {
	if ls.Name != "" {
		return ls.Name
	}
	return ls.Policy
}

// leaseCase is a trace with rates, on a cluster.
type leaseCase struct {
	Group   string
	X       float64 // on the axis of the experiment
	Seed    uint64  // tells cases of equal group and X apart
	Cluster leases.Cluster
	Jobs    []leases.Job
	Config  leases.RunConfig
}

// measure is a figure of a row.
type measure struct {
	name   string
	digits int
	of     func(*Row) sim.Stat
	// bounded says that no row can be below the certified bound, or below 1 if the measure is
	// the value over the bound.
	bounded bool
}

// Measurement is an experiment outside of the model of instances, whose runs have no bound: its
// result is tables.
type Measurement struct {
	Name string
	// Title, Text and Published are as in Info.
	Title, Text, Published string
	// plan lists the runs of the measurement, in the order of its rows.
	plan func(cfg *Config) ([]measured, error)
	// tables replaces the tables of means with the range over seeds; nil keeps them. picture is drawn
	// beside the tables; nil means none.
	tables  func(*Measured) ([]table, error)
	picture func(*Measured) (picture, error)
}

// measured is a run of a measurement: a row of the table of a group, with its seed.
type measured struct {
	group, row string
	seed       uint64
	run        func(context.Context) ([]figure, error)
}

// figure is what a run measures.
type figure struct {
	name   string
	value  float64
	digits int
}

// cannotPlay is the error of a run that there cannot be. The other runs go on.
type cannotPlay struct{ reason string }

func (e *cannotPlay) Error() string { return e.reason }

// Measured is the result of a measurement.
type Measured struct {
	Measurement Measurement
	runs        []measured
	figures     [][]figure // by run; none where the run cannot be
	reasons     []string   // by run, why it cannot be
}

// table is a table of the report, with its cells as text.
type table struct {
	Caption string
	Heads   []string
	Rows    [][]string
	// Texts is the number of columns, from the left, that hold words and not figures.
	Texts int
}

// picture is a chart of package plot.
type picture interface {
	SVG(io.Writer, plot.Options) error
	PNG(io.Writer, plot.Options) error
}

// set says how large the instances of an experiment are and how many there are. The
// instances of each experiment were fixed before its first run.
type set struct {
	scale int    // divides the jobs and GPUs
	first uint64 // the first seed; zero means 1
	count int    // how many seeds follow each other; zero means 5
}

// Row holds the mean figures of a scheme over the instances of one group, X and variant.
type Row struct {
	Group, Variant, Scheme, Knows string
	X                             float64
	Instances                     int
	// The units are those of Run and sim.Metrics; Utilization and the shares are in percent.
	WeightedJCTS, BoundS, Ratio, Lower   sim.Stat
	MeanJCTS, MeanOver                   sim.Stat
	P90JCTS, P99JCTS, MakespanS          sim.Stat
	Utilization, MeanRho, Jain, Switches sim.Stat
	P99Slowdown, WorstSlowdown, LongJCTS sim.Stat
	Within, ShareThen                    sim.Stat
}

// check refuses numbers out of range.
func (cfg *Config) check() error {
	if cfg.Scale < 0 || cfg.Repeat < 0 || cfg.Parallel < 0 || cfg.Scale > 1000 || cfg.Repeat > 10_000 ||
		cfg.Parallel > 1000 {
		return fmt.Errorf("experiment: scale %d, repeat %d, parallel %d: must be from 0 to 1000, 10000 and 1000",
			cfg.Scale, cfg.Repeat, cfg.Parallel)
	}
	return nil
}
