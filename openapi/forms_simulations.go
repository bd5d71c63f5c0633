package openapi

// SimulationRequest says which jobs are played to which policies, and on what. One of trace, instance and generate gives the jobs.
type SimulationRequest struct {
	// Policies are names, none twice: docs/policies.md and docs/task-policies.md have all.
	Policies []string           `json:"policies" validate:"required" example:"hlas,srtf"`
	Trace    SimulationTrace    `json:"trace,omitempty"`
	Instance Instance           `json:"instance,omitempty"`
	Generate SimulationGenerate `json:"generate,omitempty"`
	// GPUs is the number of GPUs by type where the jobs run; left out, with cluster: that of the instance, or the one that comes with the trace's format.
	GPUs map[string]int64 `json:"gpus,omitempty" example:"V100:36,K80:12"`
	// Cluster is in place of gpus; for policies that lend GPUs it must always be in service.
	Cluster Cluster `json:"cluster,omitempty"`
	// Jobs are the first and the last number, by arrival from 0, of the jobs that figures are of; left out: all.
	Jobs []int64 `json:"jobs,omitempty"`
	// Seed is of all draws of the first repeat, seed + 1 of the second.
	Seed int64 `json:"seed,omitempty" minimum:"0" default:"0"`
	// Repeat is how often each policy runs; from 2 on there are means with confidence intervals.
	Repeat int64 `json:"repeat,omitempty" minimum:"1" maximum:"1000" default:"1"`
	// LeaseS is how long a gang holds its GPUs, of policies that lend them.
	LeaseS float64 `json:"lease_s,omitempty" minimum:"0" default:"360"`
	// ResetS is the least time between two divisions of the GPUs.
	ResetS float64 `json:"reset_s,omitempty" minimum:"0" default:"1920"`
	// RestartS is what a lease on other GPUs than before loses; 0 is 30 for elastic policies, for which it is whole seconds.
	RestartS float64 `json:"restart_s,omitempty" minimum:"0" default:"0"`
	// IntervalS is how often elastic policies are asked, in whole seconds.
	IntervalS int64 `json:"interval_s,omitempty" minimum:"1" maximum:"1000000000" default:"60"`
	// Prices are of an hour of a GPU, by type, for policies of cost, which need one of every type of the cluster; others may be there too. Left out: Gavel's, 0.74 for V100, 0.43 for P100 and 0.135 for K80.
	Prices map[string]float64 `json:"prices,omitempty"`
	// MergeS simulates as one as many rounds of a gang of instance or generate as take so long on its fastest type, and all of a rigid job; a trace has quantum_s.
	MergeS float64 `json:"merge_s,omitempty" minimum:"0"`
	// Faults take GPUs out of service.
	Faults    []SimulationFault   `json:"faults,omitempty"`
	FaultRate SimulationFaultRate `json:"fault_rate,omitempty"`
	Failures  SimulationFailures  `json:"failures,omitempty"`
	// Stragglers stretches tasks as Alibaba measured training steps to vary; for policies that place tasks alone.
	Stragglers bool `json:"stragglers,omitempty"`
	// SwitchS is lost when a GPU begins a task of another job than its last one; leases have restart_s.
	SwitchS float64 `json:"switch_s,omitempty" minimum:"0" default:"0"`
	// CDF asks for the distribution of completion times.
	CDF bool `json:"cdf,omitempty"`
	// Detail jobs asks for the figures of every job.
	Detail string `json:"detail,omitempty" enums:"runs,jobs" default:"runs"`
	// TimeLimitS covers waiting in the queue too; left out: the server's.
	TimeLimitS float64 `json:"time_limit_s,omitempty" minimum:"0" maximum:"86400"`
} //	@name	SimulationRequest

// SimulationFault takes a GPU or a whole node out of service. One of gpu and node is needed.
type SimulationFault struct {
	// GPU is node/index. A cluster that is given as gpus has a node a type, named as that in lower case.
	GPU   string  `json:"gpu,omitempty" example:"a/0"`
	Node  string  `json:"node,omitempty"`
	FromS float64 `json:"from_s" validate:"required" minimum:"0"`
	// UntilS is when it returns; null or left out: never.
	UntilS float64 `json:"until_s,omitempty" extensions:"x-nullable"`
} //	@name	SimulationFault

// SimulationFaultRate makes GPUs, and nodes, fail and return by chance, after exponential times of these means. A mean between failures goes with one to repair. Nodes are for policies that place tasks alone.
type SimulationFaultRate struct {
	GPUMeanS    float64 `json:"gpu_mean_s,omitempty"`
	GPURepairS  float64 `json:"gpu_repair_s,omitempty"`
	NodeMeanS   float64 `json:"node_mean_s,omitempty"`
	NodeRepairS float64 `json:"node_repair_s,omitempty"`
} //	@name	SimulationFaultRate

// SimulationFailures make tasks fail and start again; for policies that place tasks alone.
type SimulationFailures struct {
	// Probability that a task fails, less than 1.
	Probability float64 `json:"probability,omitempty" minimum:"0"`
	// PerGPUHour is how many tasks fail for each hour that a GPU computes.
	PerGPUHour float64 `json:"per_gpu_hour,omitempty" minimum:"0"`
} //	@name	SimulationFailures

// SimulationTrace is a text of jobs, one a line. One of name and text is needed.
type SimulationTrace struct {
	// Name is that of a trace that comes with the program, or a part of it that no other has.
	Name string `json:"name,omitempty" example:"max_min_fairness"`
	Text string `json:"text,omitempty"`
	// Format, left out: the columns tell.
	Format string `json:"format,omitempty" enums:"gavel,openb,philly,pollux,shockwave"`
	// Table is the format's second text: step rates for gavel and shockwave, step times for pollux, nodes for openb; left out: the one that comes with the program.
	Table string `json:"table,omitempty"`
	// TableName is in place of table: one that comes with the program.
	TableName string `json:"table_name,omitempty"`
	// QuantumS is how long a round of merged steps takes on a job's fastest type.
	QuantumS float64 `json:"quantum_s,omitempty" minimum:"0" default:"60"`
	// Sync is for policies that place tasks.
	Sync string `json:"sync,omitempty" enums:"gang,rigid" default:"gang"`
} //	@name	SimulationTrace

// SimulationGenerate draws an instance for every repeat, as hare generate does.
type SimulationGenerate struct {
	Jobs int64 `json:"jobs,omitempty" minimum:"1" maximum:"100000" default:"200"`
	// Arrivals is none (all at 0), poisson:RATE in jobs a second, or uniform:SPAN, evenly at random over SPAN seconds.
	Arrivals string `json:"arrivals,omitempty" default:"none" example:"uniform:1200"`
	Sync     string `json:"sync,omitempty" enums:"relaxed,gang,rigid" default:"relaxed"`
	// GrainS is what times are rounded to.
	GrainS float64 `json:"grain_s,omitempty" minimum:"0" maximum:"1000" default:"1"`
} //	@name	SimulationGenerate

// Simulation is what came of it. Later versions may add fields.
type Simulation struct {
	// Status is deadline where the time limit passed: the runs that had ended by then are there.
	Status string `json:"status" validate:"required" enums:"succeeded,deadline"`
	// Asked is how many runs were asked for.
	Asked int64 `json:"asked" validate:"required"`
	// Runs come by policy as asked for, then seed.
	Runs []SimulationRun `json:"runs" validate:"required"`
	// Means are over the repeats of each policy, where there are several.
	Means []SimulationMeans `json:"means,omitempty"`
	// Notes say what was assumed or changed to make the jobs fit.
	Notes []string `json:"notes,omitempty"`
} //	@name	Simulation

// SimulationRun is a policy on the jobs, with one seed. Means and percentiles are over the jobs that count and were not dropped; percentiles by nearest rank.
type SimulationRun struct {
	Policy string `json:"policy" validate:"required"`
	// Engine is task, which places tasks, lease, which lends GPUs to gangs for a fixed time, or elastic, which changes how many GPUs a job has.
	Engine string `json:"engine" validate:"required" enums:"task,lease,elastic"`
	// Knows is what the policy is told beyond the events so far.
	Knows string `json:"knows" validate:"required"`
	Seed  int64  `json:"seed" validate:"required"`
	// Jobs that count; dropped ones are those that a policy gave up, and no mean counts them.
	Jobs    int64 `json:"jobs" validate:"required"`
	Dropped int64 `json:"dropped" validate:"required"`
	// MeanJCTS is the mean of end − arrival.
	MeanJCTS         float64 `json:"mean_jct_s" validate:"required"`
	WeightedMeanJCTS float64 `json:"weighted_mean_jct_s" validate:"required"`
	// WeightedJCTS is the sum of weight · (end − arrival), in weight-seconds.
	WeightedJCTS float64 `json:"weighted_jct_s" validate:"required"`
	P50JCTS      float64 `json:"p50_jct_s" validate:"required"`
	P90JCTS      float64 `json:"p90_jct_s" validate:"required"`
	P99JCTS      float64 `json:"p99_jct_s" validate:"required"`
	// MeanWaitS is the mean of first start − arrival.
	MeanWaitS float64 `json:"mean_wait_s" validate:"required"`
	P99WaitS  float64 `json:"p99_wait_s" validate:"required"`
	// MeanSlowdown is of completion time over that of the job alone on its fastest type.
	MeanSlowdown float64 `json:"mean_slowdown" validate:"required"`
	P99Slowdown  float64 `json:"p99_slowdown" validate:"required"`
	// MeanRho is of finish-time fairness: completion time over that with an equal share of the cluster.
	MeanRho  float64 `json:"mean_rho" validate:"required"`
	WorstRho float64 `json:"worst_rho" validate:"required"`
	// Jain is his index of the slowdowns; 1 where all are alike.
	Jain float64 `json:"jain" validate:"required"`
	// TotalS is when the run ended; of leases, to the end of the last one.
	TotalS float64 `json:"total_duration_s" validate:"required"`
	// MakespanS is when the last job that counts ended.
	MakespanS         float64            `json:"makespan_s" validate:"required"`
	Utilization       float64            `json:"utilization" validate:"required"`
	UtilizationByType map[string]float64 `json:"utilization_by_type" validate:"required"`
	// Switches are changes of job on a GPU; switch_gpu_s is what they, and restarts of leases, took.
	Switches    int64   `json:"switches" validate:"required"`
	SwitchS     float64 `json:"switch_gpu_s" validate:"required"`
	Preemptions int64   `json:"preemptions" validate:"required"`
	// LostTasks and lost_gpu_s are work that GPUs took with them when they left, or that leases were too short for.
	LostTasks int64   `json:"lost_tasks" validate:"required"`
	LostS     float64 `json:"lost_gpu_s" validate:"required"`
	// Failures of tasks.
	Failures int64 `json:"failures" validate:"required"`
	// DownS is what faults took out of service.
	DownS float64 `json:"down_gpu_s" validate:"required"`
	// Rounds and leases are of policies that lend GPUs.
	Rounds int64 `json:"rounds,omitempty"`
	Leases int64 `json:"leases,omitempty"`
	// Events and tasks are of policies that place tasks.
	Events int64 `json:"events,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
	// Verified: the run was recorded and passes the verifier, as all of the task engine do but with stragglers; leases have no schedule.
	Verified bool `json:"verified" validate:"required"`
	// LP is the engine of linear programs, of policies that use them.
	LP string `json:"lp,omitempty"`
	// CDF is there where it was asked for.
	CDF SimulationCDF `json:"cdf,omitempty"`
	// Each job, by number, is there where detail is jobs.
	Each []SimulatedJob `json:"each,omitempty"`
} //	@name	SimulationRun

// SimulationCDF is a distribution of completion times: share[i] of the jobs took at most jct_s[i] seconds. It has at most 1,000 points.
type SimulationCDF struct {
	JCTS  []float64 `json:"jct_s" validate:"required"`
	Share []float64 `json:"share" validate:"required"`
} //	@name	SimulationCDF

// SimulatedJob is one job of a run. What it does not have is null.
type SimulatedJob struct {
	ID          string  `json:"id" validate:"required"`
	Weight      float64 `json:"weight" validate:"required"`
	ArrivalS    float64 `json:"arrival_s" validate:"required"`
	StartS      float64 `json:"start_s" validate:"required" extensions:"x-nullable"`
	EndS        float64 `json:"end_s" validate:"required" extensions:"x-nullable"`
	JCTS        float64 `json:"jct_s" validate:"required" extensions:"x-nullable"`
	WaitS       float64 `json:"wait_s" validate:"required" extensions:"x-nullable"`
	Slowdown    float64 `json:"slowdown" validate:"required" extensions:"x-nullable"`
	Rho         float64 `json:"rho" validate:"required" extensions:"x-nullable"`
	Preemptions int64   `json:"preemptions" validate:"required"`
	State       string  `json:"state" validate:"required" enums:"ended,dropped,unfinished"`
	// Counted: it is among the jobs that figures are of.
	Counted bool `json:"counted" validate:"required"`
} //	@name	SimulatedJob

// SimulationMeans is a policy over its repeats.
type SimulationMeans struct {
	Policy  string `json:"policy" validate:"required"`
	Engine  string `json:"engine" validate:"required" enums:"task,lease,elastic"`
	Repeats int64  `json:"repeats" validate:"required"`
	// Figures by name, as a run has them.
	Figures map[string]MeanInterval `json:"figures" validate:"required"`
} //	@name	SimulationMeans

// MeanInterval is a mean over repeats.
type MeanInterval struct {
	Mean float64 `json:"mean" validate:"required"`
	// Half is half the width of the 95 % confidence interval by Student's t; null for one repeat.
	Half float64 `json:"half" validate:"required" extensions:"x-nullable"`
} //	@name	MeanInterval

// SimulationLine is one line of the answer as NDJSON: it has the member that line names.
type SimulationLine struct {
	Line     string             `json:"line" validate:"required" enums:"progress,run,summary,error"`
	Progress SimulationProgress `json:"progress,omitempty"`
	Run      SimulationRun      `json:"run,omitempty"`
	Summary  SimulationSummary  `json:"summary,omitempty"`
	// Error is why no more runs come; there is no summary then.
	Error Problem `json:"error,omitempty"`
} //	@name	SimulationLine

// SimulationProgress is how far a simulation is, all runs together but for its clock.
type SimulationProgress struct {
	// Policy of the run that has news.
	Policy string `json:"policy" validate:"required"`
	Seed   int64  `json:"seed" validate:"required"`
	// NowS is on the clock of that run.
	NowS     float64 `json:"now_s" validate:"required"`
	Runs     int64   `json:"runs" validate:"required"`
	RunsDone int64   `json:"runs_done" validate:"required"`
	Jobs     int64   `json:"jobs" validate:"required"`
	JobsDone int64   `json:"jobs_done" validate:"required"`
	// Events of tasks, or rounds of leases.
	Events int64 `json:"events" validate:"required"`
} //	@name	SimulationProgress

// SimulationSummary is the last line.
type SimulationSummary struct {
	Status string `json:"status" validate:"required" enums:"succeeded,deadline"`
	Asked  int64  `json:"asked" validate:"required"`
	// Runs is how many lines of runs came before.
	Runs  int64             `json:"runs" validate:"required"`
	Means []SimulationMeans `json:"means,omitempty"`
	Notes []string          `json:"notes,omitempty"`
} //	@name	SimulationSummary
