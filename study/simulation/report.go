package simulation

// Answer is what came of it. Later versions may add fields.
type Answer struct {
	// Status is deadline where the time limit passed: the runs that had ended by then are there.
	Status string `json:"status" enums:"succeeded,deadline"`
	// Asked is how many runs were asked for.
	Asked int64 `json:"asked"`
	// Runs come by policy as asked for, then seed.
	Runs []Run `json:"runs"`
	Summary
} //	@name	Simulation

// Run is a policy on the jobs, with one seed. Means and percentiles are over the jobs that count and were not dropped; percentiles by nearest rank.
type Run struct {
	Policy string `json:"policy"`
	// Engine is task, which places tasks, lease, which lends GPUs to gangs for a fixed time, or elastic, which changes how many GPUs a job has.
	Engine string `json:"engine" enums:"task,lease,elastic"`
	// Knows names what the policy knows beyond the events so far.
	Knows string `json:"knows"`
	Seed  uint64 `json:"seed"`
	// Jobs that count; dropped ones are those that a policy gave up, and no mean counts them.
	Jobs    int64 `json:"jobs"`
	Dropped int64 `json:"dropped"`
	// MeanJCTS is the mean of end − arrival.
	MeanJCTS         float64 `json:"mean_jct_s"`
	WeightedMeanJCTS float64 `json:"weighted_mean_jct_s"`
	// WeightedJCTS is the sum of weight · (end − arrival), in weight-seconds.
	WeightedJCTS float64 `json:"weighted_jct_s"`
	P50JCTS      float64 `json:"p50_jct_s"`
	P90JCTS      float64 `json:"p90_jct_s"`
	P99JCTS      float64 `json:"p99_jct_s"`
	// MeanWaitS is the mean of first start − arrival.
	MeanWaitS float64 `json:"mean_wait_s"`
	P99WaitS  float64 `json:"p99_wait_s"`
	// MeanSlowdown is of completion time over that of the job alone on its fastest type.
	MeanSlowdown float64 `json:"mean_slowdown"`
	P99Slowdown  float64 `json:"p99_slowdown"`
	// MeanRho is of finish-time fairness: completion time over that with an equal share of the cluster.
	MeanRho  float64 `json:"mean_rho"`
	WorstRho float64 `json:"worst_rho"`
	// Jain is his index of the slowdowns; 1 where all are alike.
	Jain float64 `json:"jain"`
	// TotalS is when the run ended; of leases, to the end of the last one.
	TotalS float64 `json:"total_duration_s"`
	// MakespanS is when the last job that counts ended.
	MakespanS         float64            `json:"makespan_s"`
	Utilization       float64            `json:"utilization"`
	UtilizationByType map[string]float64 `json:"utilization_by_type"`
	// Switches are changes of job on a GPU; switch_gpu_s is what they, and restarts of leases, took.
	Switches    int64   `json:"switches"`
	SwitchS     float64 `json:"switch_gpu_s"`
	Preemptions int64   `json:"preemptions"`
	// LostTasks and lost_gpu_s are work that GPUs took with them when they left, or that leases were too short for.
	LostTasks int64 `json:"lost_tasks"`
	// Failures of tasks.
	Failures int64   `json:"failures"`
	LostS    float64 `json:"lost_gpu_s"`
	// DownS is what faults took out of service.
	DownS float64 `json:"down_gpu_s"`
	// Rounds and leases are of policies that lend GPUs.
	Rounds int64 `json:"rounds,omitempty"`
	Leases int64 `json:"leases,omitempty"`
	// Events and tasks are of policies that place tasks.
	Events int64 `json:"events,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
	// Verified: the run was recorded and passes the verifier, as all of the task engine do but with stragglers; leases have no schedule.
	Verified bool `json:"verified"`
	// LP is the engine of linear programs, of policies that use them.
	LP string `json:"lp,omitempty"`
	// CDF is there where it was asked for.
	CDF *CDF `json:"cdf,omitempty"`
	// Each job, by number, is there where detail is jobs.
	Each []Job `json:"each,omitempty"`
} //	@name	SimulationRun

// CDF is a distribution of completion times: share[i] of the jobs took at most jct_s[i] seconds. It has at most 1,000 points.
type CDF struct {
	JCTS  []float64 `json:"jct_s"`
	Share []float64 `json:"share"`
} //	@name	SimulationCDF

// Job is one job of a run. What it does not have is null.
type Job struct {
	ID          string   `json:"id"`
	Weight      float64  `json:"weight"`
	ArrivalS    float64  `json:"arrival_s"`
	StartS      *float64 `json:"start_s"`
	EndS        *float64 `json:"end_s"`
	JCTS        *float64 `json:"jct_s"`
	WaitS       *float64 `json:"wait_s"`
	Slowdown    *float64 `json:"slowdown"`
	Rho         *float64 `json:"rho"`
	Preemptions int64    `json:"preemptions"`
	State       string   `json:"state" enums:"ended,dropped,unfinished"`
	// Counted: it is among the jobs that figures are of.
	Counted bool `json:"counted"`
} //	@name	SimulatedJob

// Line is one line of the answer as NDJSON: it has the member that line names.
type Line struct {
	Kind     string    `json:"line" enums:"progress,run,summary,error"`
	Progress *Progress `json:"progress,omitempty"`
	Run      *Run      `json:"run,omitempty"`
	Summary  *LastLine `json:"summary,omitempty"`
}

// Progress is how far a simulation is, all runs together but for its clock.
type Progress struct {
	// Policy of the run that has news.
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// NowS is on the clock of that run.
	NowS     float64 `json:"now_s"`
	Runs     int64   `json:"runs"`
	RunsDone int64   `json:"runs_done"`
	Jobs     int64   `json:"jobs"`
	JobsDone int64   `json:"jobs_done"`
	// Events of tasks, or rounds of leases.
	Events int64 `json:"events"`
} //	@name	SimulationProgress

// LastLine is the last line.
type LastLine struct {
	Status string `json:"status" enums:"succeeded,deadline"`
	Asked  int64  `json:"asked"`
	// Runs is how many lines of runs came before.
	Runs int64 `json:"runs"`
	Summary
} //	@name	SimulationSummary

// Summary is what a report says beside its runs. Reports, the last lines of answers,
// the client and the specification have it from here.
type Summary struct {
	// Means are over the repeats of each policy, where there are several.
	Means []Means `json:"means,omitempty"`
	// Notes say what was assumed or changed to make the jobs fit.
	Notes []string `json:"notes,omitempty"`
	// Played says what was simulated; left out where no run ended.
	Played *Played `json:"played,omitempty"`
	// Bound is what no plan of the jobs can go below; left out where it was not asked for.
	Bound *Bound `json:"bound,omitempty"`
	// Labels are those of the request.
	Labels map[string]string `json:"labels,omitempty"`
}

// Played is what the policies played.
type Played struct {
	// Jobs says where they came from: the name of a trace or instance, or how they were drawn.
	Jobs string `json:"jobs"`
	// Cluster is its GPUs, by type.
	Cluster string `json:"cluster"`
	// Seed is that of the first repeat.
	Seed uint64 `json:"seed"`
} //	@name	SimulationPlayed

// Bound is a certified bound of the jobs that policies of tasks played.
type Bound struct {
	// WeightedJCTS is the bound on the sum of weight times completion less arrival, rounded down.
	WeightedJCTS float64 `json:"weighted_jct_s"`
	// Method is how it was computed.
	Method string `json:"method"`
	// Above says by which fraction the runs of a policy exceed the bound at most, by policy,
	// the worst of its repeats; of verified runs alone, and empty where the bound is 0.
	Above map[string]float64 `json:"above"`
} //	@name	SimulationBound

// Means is a policy over its repeats.
type Means struct {
	Policy  string `json:"policy"`
	Engine  string `json:"engine" enums:"task,lease,elastic"`
	Repeats int64  `json:"repeats"`
	// Figures by name, as a run has them.
	Figures map[string]MeanInterval `json:"figures"`
} //	@name	SimulationMeans

// MeanInterval is a mean over repeats.
type MeanInterval struct {
	Mean float64 `json:"mean"`
	// Half is half the width of the 95 % confidence interval by Student's t; null for one repeat.
	Half *float64 `json:"half"`
} //	@name	MeanInterval
