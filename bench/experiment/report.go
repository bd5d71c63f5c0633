package experiment

import (
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Run holds the figures of one scheme on one instance.
type Run struct {
	Group, Variant, Instance, Scheme string
	X                                float64
	Seed                             uint64
	Policy                           registry.Info
	Metrics                          *sim.Metrics
	// Bound is the certified bound on the weighted JCT, in weight-seconds; 0 without one.
	Bound float64
	// Ratio is the weighted JCT over Bound; 0 without a positive bound.
	Ratio float64
	// Lower is by how many percent the weighted JCT of the first run of the same group, X and
	// seed is lower than the weighted JCT of this run. Lower is negative if this run is better.
	// MeanOver is the mean JCT of this run over the mean JCT of the first run.
	Lower, MeanOver float64
	// ShareThen is the share of jobs of this run whose JCT is at most the JCT within which the
	// first run completes 90.5 % of its jobs.
	ShareThen float64
	// LongJCTS is the mean JCT of the tenth of the jobs with the most work, and WorstSlowdown
	// the greatest slowdown of all jobs.
	LongJCTS, WorstSlowdown float64
}

// Report is the result of an experiment.
type Report struct {
	Info Info
	Runs []Run // by case, then scheme
}
