package experiment

import (
	"github.com/hare-sched/hare/online/policies"
)

// six are the schemes that the Hare paper compares. hare_offline stands for the paper's own
// scheme.
var six = named("hare_offline", "hlas", "sched_allox", "sched_homo", "srtf", "gavel_fifo")

// weightedJCT is the papers' main comparison. It uses the standard instances, seeds 1 to 5,
// both with all jobs at time 0 and with arrivals over 1,200 s.
var weightedJCT = Info{
	Name:  "weighted-jct",
	Title: "Weighted job completion time of the paper's six schemes",
	Text: "Relaxed jobs of 8 models on four GPU types; the same instances for every scheme, each beside the " +
		"certified bound.",
	Published: "Hare (HPDC 2022): weighted JCT 47.6 to 75.3 % lower than the other schemes, 160 GPUs, 200 jobs, " +
		"arrivals of a Google trace.",
	schemes: named("hare_offline", "hare_paper", "hlas", "sched_allox", "sched_homo", "srtf", "gavel_fifo"),
	cases:   set.twoLoads,
}

// cdf uses the instances of weightedJCT.
var cdf = Info{
	Name:  "cdf",
	Title: "Share of jobs completed within a time",
	Text: "The instances of weighted-jct. How many jobs are completed within 25 minutes depends on how long the " +
		"generator's jobs are, which is our choice; " +
		"how many are completed within the time in which hare_offline completes 90.5 % depends less on it.",
	Published: "Hare (HPDC 2022): 90.5 % of jobs within 25 minutes, against 66.7 % (Sched_Allox) and 56.5 % " +
		"(Sched_Homo).",
	schemes:  six,
	cases:    set.twoLoads,
	measures: []measure{within, then},
	cdf:      true,
}

// algorithm1 uses the instances of weightedJCT with arrivals. Its schemes lead from the
// paper's algorithm to hare_offline, one difference at a time.
var algorithm1 = Info{
	Name:  "algorithm-1",
	Title: "From algorithm 1 of the paper to hare_offline",
	Text: "The instances of weighted-jct with arrivals. The variants show the loss from giving each task the " +
		"GPU that is available first, from the order of the relaxation, and from omitting the search.",
	Published: "Hare (HPDC 2022) reports its algorithm 1 as the best of all schemes; its authors' simulator takes " +
		"the GPU that finishes first.",
	schemes: []Scheme{
		{Policy: "hare_offline"},
		{Policy: "hare_offline", Name: "order by prices, gaps used, no search", Config: policies.Config{Moves: -1}},
		{Policy: "hare_offline", Name: "order by prices, GPU that finishes first", Config: policies.Config{Moves: -1,
			Assign: "earliest_finish"}},
		{Policy: "hare_offline", Name: "order by prices, GPU available first", Config: policies.Config{Moves: -1,
			Assign: "earliest_available"}},
		{Policy: "hare_paper", Name: "order of the relaxation, gaps used", Config: policies.Config{Assign: "insertion"}},
		{Policy: "hare_paper", Name: "order of the relaxation, GPU that finishes first",
			Config: policies.Config{Assign: "earliest_finish"}},
		{Policy: "hare_paper", Name: "hare_paper: that order, GPU available first"},
	},
	cases: func(s set) ([]Case, error) {
		return s.disturbed("", []float64{0}, func(*Case, float64) error { return nil })
	},
}
