package simulate

// Answer is the outcome of a simulation. Later versions may add fields.
type Answer struct {
	// Status is deadline where the time limit passed. The answer then has the runs that had ended by that time.
	Status string `json:"status" enums:"succeeded,deadline"`
	// Asked is the number of runs that were asked for.
	Asked int64 `json:"asked"`
	// Runs are in the order in which the request names the policies, and by seed within a policy.
	Runs []Run `json:"runs"`
	Summary
} //	@name	Simulation

// Run is one policy that schedules the jobs, with one seed. Means and percentiles are over the jobs that count and
// were not dropped. Percentiles are those of the nearest rank.
type Run struct {
	Policy string `json:"policy"`
	// Engine is task, which places tasks, lease, which lends GPUs to gangs for a fixed time, elastic, which changes
	// how many GPUs a job has, or shared, which lets jobs share GPUs.
	Engine string `json:"engine" enums:"task,lease,elastic,shared"`
	// Knows names what the policy knows beyond the events so far.
	Knows string `json:"knows"`
	Seed  uint64 `json:"seed"`
	// Jobs is the number of jobs that count.
	Jobs int64 `json:"jobs"`
	// Dropped is the number of jobs that the policy gave up. No mean counts them.
	Dropped int64 `json:"dropped"`
	// MeanJCTS is the mean of end − arrival, in seconds.
	MeanJCTS         float64 `json:"mean_jct_s"`
	WeightedMeanJCTS float64 `json:"weighted_mean_jct_s"`
	// WeightedJCTS is the sum of weight · (end − arrival), in weight-seconds.
	WeightedJCTS float64 `json:"weighted_jct_s"`
	P50JCTS      float64 `json:"p50_jct_s"`
	P90JCTS      float64 `json:"p90_jct_s"`
	P99JCTS      float64 `json:"p99_jct_s"`
	// MeanWaitS is the mean of first start − arrival, in seconds.
	MeanWaitS float64 `json:"mean_wait_s"`
	P99WaitS  float64 `json:"p99_wait_s"`
	// MeanSlowdown is the mean of slowdowns. The slowdown of a job is its completion time divided by the completion time
	// that it has alone on its fastest type.
	MeanSlowdown float64 `json:"mean_slowdown"`
	P99Slowdown  float64 `json:"p99_slowdown"`
	// MeanRho is the mean of finish-time fairness, which is the completion time of a job divided by the completion time
	// that it has with an equal share of the cluster.
	MeanRho  float64 `json:"mean_rho"`
	WorstRho float64 `json:"worst_rho"`
	// Jain is Jain's index of the slowdowns. It is 1 where all slowdowns are equal.
	Jain float64 `json:"jain"`
	// TotalS is when the run ended. A run of leases ends with the last lease.
	TotalS float64 `json:"total_duration_s"`
	// MakespanS is when the last job that counts ended.
	MakespanS         float64            `json:"makespan_s"`
	Utilization       float64            `json:"utilization"`
	UtilizationByType map[string]float64 `json:"utilization_by_type"`
	// Switches counts how often a GPU changed from one job to another.
	Switches int64 `json:"switches"`
	// SwitchS is the GPU time that switches and restarts of leases took, in GPU-seconds.
	SwitchS     float64 `json:"switch_gpu_s"`
	Preemptions int64   `json:"preemptions"`
	// LostTasks counts the tasks that were lost because their GPU left or their lease was too short.
	LostTasks int64 `json:"lost_tasks"`
	// Failures counts the tasks that failed.
	Failures int64 `json:"failures"`
	// LostS is the GPU time of the tasks that were lost, in GPU-seconds.
	LostS float64 `json:"lost_gpu_s"`
	// DownS is the GPU time that faults took out of service, in GPU-seconds.
	DownS float64 `json:"down_gpu_s"`
	// Rounds counts the rounds of a policy that lends GPUs.
	Rounds int64 `json:"rounds,omitempty"`
	// Leases counts the leases of a policy that lends GPUs.
	Leases int64 `json:"leases,omitempty"`
	// Events counts the events of a policy that places tasks.
	Events int64 `json:"events,omitempty"`
	// Tasks counts the tasks of a policy that places tasks.
	Tasks int64 `json:"tasks,omitempty"`
	// Verified says that the run was recorded and that the verifier accepts its schedule. All runs of the engine task are
	// verified, except those with stragglers. Leases have no schedule.
	Verified bool `json:"verified"`
	// LP is the engine of linear programs, where the policy uses them.
	LP string `json:"lp,omitempty"`
	// CDF is the distribution of completion times, where the request asks for the distribution.
	CDF *CDF `json:"cdf,omitempty"`
	// Each has the jobs in order, where detail is jobs.
	Each []Job `json:"each,omitempty"`
} //	@name	SimulationRun

// CDF is a distribution of completion times: share[i] of the jobs took at most jct_s[i] seconds. A distribution has at
// most 1,000 points.
type CDF struct {
	JCTS  []float64 `json:"jct_s"`
	Share []float64 `json:"share"`
} //	@name	SimulationCDF

// Job is one job of a run. A figure that the job does not have is null.
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
	// Counted says that the figures of the run count the job.
	Counted bool `json:"counted"`
} //	@name	SimulatedJob

// Line is one line of the answer as NDJSON. The line has the member that its field line names.
type Line struct {
	Kind     string    `json:"line" enums:"progress,run,summary,error"`
	Progress *Progress `json:"progress,omitempty"`
	Run      *Run      `json:"run,omitempty"`
	Summary  *LastLine `json:"summary,omitempty"`
}

// Progress is how far a simulation has come. All figures but now_s are over all runs.
type Progress struct {
	// Policy is the policy of the run that has made progress.
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// NowS is the time on the clock of that run.
	NowS     float64 `json:"now_s"`
	Runs     int64   `json:"runs"`
	RunsDone int64   `json:"runs_done"`
	Jobs     int64   `json:"jobs"`
	JobsDone int64   `json:"jobs_done"`
	// Events counts the events of policies that place tasks, and the rounds of policies that lend GPUs.
	Events int64 `json:"events"`
} //	@name	SimulationProgress

// LastLine is what the last line says.
type LastLine struct {
	Status string `json:"status" enums:"succeeded,deadline"`
	Asked  int64  `json:"asked"`
	// Runs is the number of runs whose lines came before.
	Runs int64 `json:"runs"`
	Summary
} //	@name	SimulationSummary

// Summary is what a report says beside its runs. The report, the last line of an answer,
// the client and the specification take these fields from here.
type Summary struct {
	// Means are the means over the repeats of each policy, where there are several repeats.
	Means []Means `json:"means,omitempty"`
	// Notes say what was assumed, and what was changed to make the jobs fit.
	Notes []string `json:"notes,omitempty"`
	// Played says what was simulated. It is left out where no run ended.
	Played *Played `json:"played,omitempty"`
	// Bound is a value that no plan of the jobs can go below. It is left out where the request does not ask for a bound.
	Bound *Bound `json:"bound,omitempty"`
	// Labels are the labels of the request.
	Labels map[string]string `json:"labels,omitempty"`
}

// Played is what the policies played.
type Played struct {
	// Jobs says where the jobs came from: the name of a trace or instance, or how the jobs were drawn.
	Jobs string `json:"jobs"`
	// Cluster lists the GPUs by type.
	Cluster string `json:"cluster"`
	// Seed is the seed of the first repeat.
	Seed uint64 `json:"seed"`
} //	@name	SimulationPlayed

// Bound is a certified bound for the jobs that policies of tasks played.
type Bound struct {
	// WeightedJCTS is the bound on the sum of weight · (end − arrival), rounded down, with what the jobs cost that end
	// with the work that runs at time 0.
	WeightedJCTS float64 `json:"weighted_jct_s"`
	// Method is the method that computed the bound.
	Method string `json:"method"`
	// Above says, for each policy, by which fraction the worst of its repeats exceeds the bound, both without what the
	// jobs cost that end with the work that runs at time 0. Only verified runs are
	// compared. It is empty where the bound is 0.
	Above map[string]float64 `json:"above"`
} //	@name	SimulationBound

// Means has the means of one policy over its repeats.
type Means struct {
	Policy  string `json:"policy"`
	Engine  string `json:"engine" enums:"task,lease,elastic,shared"`
	Repeats int64  `json:"repeats"`
	// Figures are the means by name. A run has fields of the same names.
	Figures map[string]MeanInterval `json:"figures"`
} //	@name	SimulationMeans

// MeanInterval is a mean over repeats.
type MeanInterval struct {
	Mean float64 `json:"mean"`
	// Half is half the width of the 95 % confidence interval by Student's t. It is null for one repeat.
	Half *float64 `json:"half"`
} //	@name	MeanInterval
