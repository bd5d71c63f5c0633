package policies

import (
	"slices"

	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/rolling"
)

// Parameter is a parameter of a policy in sessions.
type Parameter struct {
	Name string `json:"name"`
	// Type is the type of its JSON value: number, integer, boolean, string, object or numbers, an
	// array of numbers.
	Type string `json:"type"`
	// Unit is s, gpu_s (GPU-seconds), or empty.
	Unit string `json:"unit,omitempty"`
	// Default is the value where the parameter is left out. It is missing where the policy
	// computes one, as text says.
	Default any    `json:"default,omitempty"`
	Text    string `json:"text"`
} //	@name	PolicyParameter

var guardParameters = []Parameter{
	{"guard", "boolean", "", true, "whether the guard against starvation is on"},
	{"kappa", "number", "", int64(list.DefaultKappa), "by how many times its rounds a job may fall behind round robin " +
		"before GPUs are kept for it"},
	{"fifo_slowdown", "number", "", nil, "the slowdown that jobs should not exceed, as a multiple of the 99th " +
		"percentile that first come, first served would have, 0 for no limit; left out: 1 where all GPUs are of one " +
		"type, and no limit elsewhere"},
}

var rollingParameters = []Parameter{
	{"migration_s", "number", "s", nil, "what a plan charges a job for leaving the GPU type that it last ran on; left " +
		"out: 60 s, or a round on its fastest type where that is longer"},
	{"switch_s", "number", "s", nil, "what a switch of a GPU to another job costs; left out: learned from the tasks " +
		"that ended"},
	{"moves", "integer", "", nil, "moves of the search of each plan, 0 for none; left out: 400 for each job, at most " +
		"20,000, fewer for over 150 jobs and none for over 300 (20,000 for hare_offline)"},
	{"aside", "boolean", "", nil, "whether plans are made beside the session; left out: true for rolling on a server, " +
		"false elsewhere"},
	{"max_age_s", "number", "s", int64(rolling.DefaultMaxAgeUs / 1e6),
		"with aside: how long a plan is followed after a change " +
			"that it has not seen; then hgittins decides"},
	{"plan_every_s", "number", "s", int64(rolling.DefaultPlanEveryUs / 1e6),
		"with aside: the time of the session for each " +
			"plan, of which ten may follow each other at once; 0 makes a plan at each change"},
	{"wait_for_plan", "boolean", "", false, "with aside: whether nothing starts while a plan is due, until max_age_s " +
		"has passed; for clusters whose starts are hard to undo"},
	guardParameters[0],
	{"kappa", "number", "", int64(rolling.DefaultKappa), guardParameters[1].Text},
	guardParameters[2],
}

var tiresiasParameters = []Parameter{
	{"thresholds_s", "numbers", "gpu_s", []int64{3600}, "attained GPU-time at which jobs leave a queue, increasing"},
	{"knob", "number", "", int64(8), "a job that has waited this many times as long as it ran is promoted; below 0: " +
		"never"},
}

// parametersOf are the parameters of policies in sessions; the others have none.
var parametersOf = map[string][]Parameter{
	"asrpt": {
		{"delay_s", "number", "s", int64(300), "how long a job that is heavy on communication waits for GPUs that are " +
			"near together; 0 not at all"},
		{"heavy", "number", "", 1.5, "how many times longer a round of such a job takes on GPUs far apart, at least 1"},
		{"near", "number", "", 1.1, "how many times longer than at best a round of such a job may take on GPUs at " +
			"hand for it to start at once, at least 1"},
		{"pass", "boolean", "", false, "whether jobs pass one that does not fit"},
		{"backfill", "boolean", "", false, "whether jobs pass one that does not fit where they do not delay it (EASY)"},
		{"eager", "boolean", "", false,
			"whether jobs that the virtual machine has not completed start on GPUs that would " +
				"idle"},
		{"trust", "boolean", "", false, "whether estimate_s of a job is its size; otherwise estimates count as far as " +
			"those of jobs that ended were right"},
		{"graphs", "object", "", nil, "a document of job graphs; the label graph of a job's class names its configuration"},
		{"first_fit", "boolean", "", false, "whether jobs with graphs are placed by first fit and not by Heavy-Edge"},
		{"predict", "string", "", "belief", "what tells the size of a job that arrives: belief, what is believed by jobs " +
			"that ended, classes and estimates; forest, a random forest of classes and widths; none, the median of all jobs"},
	},
	"hlas": {
		{"queues", "integer", "", int64(2), "queues by attained service"},
		{"thresholds_s", "numbers", "gpu_s", []int64{3600},
			"attained service on the reference type at which jobs leave a " +
				"queue, increasing, one fewer than queues"},
		{"kappa", "number", "", int64(2), "the factor of the starvation guard"},
		{"reference", "string", "", nil, "the GPU type in whose seconds service is counted; left out: the fastest type " +
			"of each job"},
	},
	"rolling":      rollingParameters,
	"hare_offline": rollingParameters,
	"hgittins": append([]Parameter{
		{"slowest_factor", "number", "", int64(4), "how many times slower than on the best type a job may run, at least 1"},
		{"strict", "boolean", "", false, "whether no job passes one that does not fit"},
		{"sticky", "boolean", "", true, "whether a job takes the GPUs of its last round first"},
		{"by_arrival", "boolean", "", false, "whether jobs are ordered by arrival instead of by their index"},
	}, guardParameters...),
	"tiresias":         tiresiasParameters,
	"tiresias_gittins": tiresiasParameters,
	"sampling": {
		{"draws", "integer", "", int64(64), "numbers of GPUs of all jobs that are drawn for each placement"},
		{"skip", "number", "", 0.5, "the share of the draws, from 0 to below 1, for which no market is held"},
		{"drawing", "string", "", "near", "near draws around the best numbers of GPUs for mean speeds, uniform evenly " +
			"among all"},
		{"valuation", "string", "", "saving", "what a GPU is worth to a job: saving, the time that it saves, or " +
			"throughput"},
		{"only_placed", "boolean", "", false, "whether GPUs idle rather than help jobs to which the placement does not " +
			"give them"},
		{"whole_rounds", "boolean", "", false, "whether relaxed jobs are placed only with GPUs for all tasks of a round"},
		{"ring", "boolean", "", false, "whether relaxed jobs are taken to exchange parameters in a ring over the " +
			"bandwidths of the cluster, so that fewer GPUs synchronise faster"},
	},
	"gandiva": {{"slice_s", "number", "s", int64(60), "how long a job keeps its GPUs in its turn"}},
	"slurm": {
		{"age", "number", "", int64(1000), "weight of the age factor, from 0 on"},
		{"size", "number", "", int64(1000), "weight of the size factor, from 0 on"},
		{"qos", "number", "", int64(2000), "weight of the job's weight, from 0 on"},
		{"max_age_s", "number", "s", int64(7 * 24 * 3600), "the age at which the age factor is 1"},
	},
	"themis": {
		{"fairness", "number", "", 0.8, "the share of the jobs, from 0 to 1, that do not bid for free GPUs"},
		{"lease_s", "number", "s", int64(600), "how long a job keeps its GPUs"},
	},
}

// Parameters are those of the policy in sessions.
func (info Info) Parameters() []Parameter { return slices.Clone(parametersOf[info.Name]) }

// GoesByHints reports whether the policy goes by estimate_s and class of the jobs where it
// is given no sizes.
func (info Info) GoesByHints() bool {
	switch info.Name {
	case "rolling", "hgittins":
		return true
	case "tiresias_gittins": // goes by the distribution alone
		return false
	}
	return info.KnowsInSession() == Estimates
}
