// Package clusters has the documents of managed clusters: clusters, their jobs and their agents, and what
// an agent and the server tell each other. Server, agent, clients and the specification share them.
//
// Durations are numbers of seconds and never instants, because the clocks of machines differ; the instants
// in these documents are those of the server's clock, for people.
package clusters

import (
	"encoding/json"
	"net/url"
	"time"
)

// ProtocolVersion is the version of what agents and the server tell each other. The server refuses agents
// of another version: one of version 3 would not show the secret of its registration.
const ProtocolVersion = 4

// NewCluster asks for a cluster.
type NewCluster struct {
	// Name has letters, digits, ".", "_" and "-", begins with a letter or digit, and has at most 63 of them.
	Name string `json:"name"`
	// Policy is a policy of sessions; without it rolling decides.
	Policy string `json:"policy,omitempty"`
	// Parameters are the parameters of the policy.
	Parameters parametersText `json:"parameters,omitempty"`
} //	@name	NewCluster

// Cluster is a managed cluster: agents, jobs, and the online session that decides for them.
type Cluster struct {
	Name       string         `json:"name"`
	Created    time.Time      `json:"created" swaggertype:"string" format:"date-time"`
	Policy     string         `json:"policy"`
	Parameters parametersText `json:"parameters,omitempty"`
	// Session is the ID of the online session; its log, plan and regret are those of the cluster.
	// It is left out until the first agent has registered.
	Session string `json:"session,omitempty"`
	// Agents, GPUs and FreeGPUs count what is in service now.
	Agents   int `json:"agents"`
	GPUs     int `json:"gpus"`
	FreeGPUs int `json:"free_gpus"`
	// Jobs counts jobs by state.
	Jobs map[JobState]int `json:"jobs" swaggertype:"object,integer"`
} //	@name	ManagedCluster

// ClusterList lists clusters by name.
type ClusterList struct {
	Clusters []*Cluster `json:"clusters"`
} //	@name	ManagedClusterList

// JobState says where a job stands.
type JobState string

// The states of jobs. The last three are final.
const (
	JobWaiting   JobState = "waiting"  // for GPUs
	JobStarting  JobState = "starting" // its tasks are ordered, and not all of them run yet
	JobRunning   JobState = "running"
	JobStopping  JobState = "stopping" // its tasks were told to end
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Final says that the state is the last one of a job.
func (s JobState) Final() bool { return s == JobSucceeded || s == JobFailed || s == JobCancelled }

// NewJob asks for a job: a command, or rounds of a Python module.
type NewJob struct {
	// Name is for people; without it the job is called after its command or module.
	Name string `json:"name,omitempty"`
	// User is whose job it is, for people: lists can be filtered by it. It has at most 100 characters.
	User string `json:"user,omitempty"`
	// Labels are for people, and for filters of lists: at most 16, with keys of at most 63 characters without = and
	// values of at most 200. How a job is scheduled does not depend on them.
	Labels map[string]string `json:"labels,omitempty"`
	// Command is the argument vector. No shell reads it.
	Command []string `json:"command,omitempty"`
	// Module is the Python module of a round job: it has build(), batch() and loss() (docs/use/run-jobs.md#round-jobs).
	Module string `json:"module,omitempty"`
	// Config is what build() of the module is given.
	Config json.RawMessage `json:"config,omitempty" swaggertype:"object"`
	// Rounds is the number of rounds of a round job.
	Rounds int64 `json:"rounds,omitempty"`
	// Tasks is the number of tasks of a round; as many as gpus where it is left out. Their gradients are summed.
	Tasks int `json:"tasks,omitempty"`
	// Sync says where the tasks of a round run. Relaxed gives each to any GPU of the job's types, on any node; the job
	// shares GPUs with other jobs round by round, and takes no gpus, nodes and gpus_per_task. Rigid gives each to
	// whichever is free of the job's own GPUs, which it has until its end. Gang gives each a GPU of its own, so that
	// tasks equals gpus. Without sync a job that says gpus or nodes is rigid, and another one relaxed.
	Sync string `json:"sync,omitempty" enums:"relaxed,rigid,gang"`
	// Seed is the seed of the first parameters and of all tasks of a round job.
	Seed int64 `json:"seed,omitempty"`

	// GPUs is the number of all GPUs of the job; 1 where it is left out. Those of a round job are on one node, or spread
	// equally over nodes. A relaxed round job has none of its own.
	GPUs int `json:"gpus,omitempty"`
	// GPUsPerTask is the number of GPUs of one process, all on one node. Without it each GPU has its own
	// process.
	GPUsPerTask int `json:"gpus_per_task,omitempty"`
	// Nodes is the number of nodes that the job's GPUs are spread over, equally many on each. Without it
	// they may be anywhere.
	Nodes int `json:"nodes,omitempty"`
	// On maps the types that the job may run on to the seconds that it takes there: the whole of a command, a round of
	// a rigid or gang round job, one task of a relaxed one. 0 means that the time is to be learned. Without On every
	// type of the cluster will do.
	On map[string]float64 `json:"on,omitempty"`

	// Env is added to the environment. Names that begin with HARE_ and those of torchrun are refused.
	Env map[string]string `json:"env,omitempty"`
	// SecretEnv is Env whose values nobody is shown but the agents that run the job: what describes the job has *** in
	// their place. Once the job has ended, only the journal on the server's disk has them.
	SecretEnv map[string]string `json:"secret_env,omitempty"`
	// Directory is the working directory on the nodes; without it the agent gives an empty one.
	Directory string `json:"directory,omitempty"`
	// CheckpointDirectory is given to the job as HARE_CHECKPOINT_DIR. Nodes must share it for jobs that move
	// between nodes. Without it the agent gives one of its own.
	CheckpointDirectory string `json:"checkpoint_directory,omitempty"`
	// Retries is how often the job is started again after it has failed. A start that was lost with its node
	// is repeated without being counted.
	Retries int `json:"retries,omitempty"`
	// GraceS is the time in seconds between SIGTERM and SIGKILL; 10 where it is left out.
	GraceS *float64 `json:"grace_s,omitempty"`

	// Weight is the weight of the job's completion time; 1 where it is left out.
	Weight *float64 `json:"weight,omitempty"`
	// EstimateS is the user's guess of the seconds that the job runs: a hint, never a limit. Where it is left out, it is
	// the least of the times that On states, for all rounds.
	EstimateS *float64 `json:"estimate_s,omitempty"`
	// Class groups jobs whose durations are alike, such as those of a user or of a model.
	Class map[string]string `json:"class,omitempty"`
} //	@name	NewManagedJob

// Job is a job of a cluster.
type Job struct {
	ID string `json:"id"`
	NewJob
	// State is waiting, starting, running or stopping; or succeeded, failed or cancelled, which are final.
	State JobState `json:"state" swaggertype:"string"`
	// Place counts the waiting jobs that are expected to start no later than this waiting one, itself included: by
	// expected start, then by submission. Without a plan it goes by the order in which the policy looks at jobs.
	Place int `json:"place,omitempty"`
	// Reason says in one line what the job waits for, why it failed, or who cancelled it.
	Reason string `json:"reason,omitempty"`
	// ReasonShort says it in at most six words.
	ReasonShort string `json:"reason_short,omitempty"`
	// ReasonCode is no_service where too few GPUs, or no nodes, are in service that the job may use; busy where GPUs that
	// it wants are busy; planned_later where they are free and the plan has others first; reserved where they are kept
	// for others; fragmented where no nodes have room, although GPUs are free; gathering where GPUs are kept for the job
	// until there are enough; quota where the user's quota is used up; next_plan where the job came after the plan was
	// asked for; arriving where the scheduler does not know the job yet; checkpoint where it waits for a node with its
	// checkpoint; held where somebody holds it; or says that the job is stopping, has failed, or was cancelled.
	ReasonCode string `json:"reason_code,omitempty" enums:"no_service,busy,planned_later,reserved,fragmented,gathering,quota,next_plan,arriving,checkpoint,held,stopping,failed,cancelled"`
	// Hold says that the job does not start until it is released.
	Hold bool `json:"hold,omitempty"`
	// Changes are who changed the job, the last 100. Lists leave them out.
	Changes []*JobChanged `json:"changes,omitempty"`

	Submitted time.Time  `json:"submitted" swaggertype:"string" format:"date-time"`
	Started   *time.Time `json:"started,omitempty" swaggertype:"string" format:"date-time"` // of the last attempt
	Ended     *time.Time `json:"ended,omitempty" swaggertype:"string" format:"date-time"`
	// ExpectedInS and ExpectedEndInS are the seconds until the start and the end that the plan expects.
	ExpectedInS    *float64 `json:"expected_in_s,omitempty"`
	ExpectedEndInS *float64 `json:"expected_end_in_s,omitempty"`
	// EarliestEndInS is the proved least number of seconds until the end, if what the plan knows is right.
	EarliestEndInS *float64 `json:"earliest_end_in_s,omitempty"`
	// Round is the number of rounds of a round job that are done and stand in its checkpoint.
	Round int64 `json:"round,omitempty"`
	// Loss is that of the last of these rounds, the mean of its tasks; a text, because it may be NaN.
	Loss string `json:"loss,omitempty"`
	// CopyRound is the number of rounds that stand in the copy that the server keeps of the checkpoint.
	CopyRound int64 `json:"copy_round,omitempty"`
	// CopyProblem says why the server has no newer copy, where it was offered one.
	CopyProblem string `json:"copy_problem,omitempty"`
	// Failures counts the attempts that failed; Lost counts those that were lost with their node.
	Failures int `json:"failures,omitempty"`
	Lost     int `json:"lost,omitempty"`
	// Home is the node that holds the parameters of a relaxed round job, while an attempt goes on.
	Home string `json:"home,omitempty"`
	// TasksOut is the number of tasks of a relaxed round job that have GPUs now; they stand in the last attempt.
	TasksOut int `json:"tasks_out,omitempty"`
	// TasksOn counts the tasks of a relaxed round job that have ended, by GPU type, over all attempts.
	TasksOn map[string]int64 `json:"tasks_on,omitempty" swaggertype:"object,integer"`
	// Attempts are the starts of the job, the last one last. Lists have the last one alone.
	Attempts []*Attempt `json:"attempts,omitempty"`
} //	@name	ManagedJob

// JobPatch asks for a change of a job that has not ended. What is left out stays as it is.
type JobPatch struct {
	// Weight is the weight of the job's completion time from now on.
	Weight *float64 `json:"weight,omitempty"`
	// Labels are set besides those that the job has; null removes a label.
	Labels map[string]*string `json:"labels,omitempty"`
	// Hold keeps a job that waits from starting; false releases it.
	Hold *bool `json:"hold,omitempty"`
	// Reason is for people: one line of at most 500 bytes.
	Reason string `json:"reason,omitempty"`
} //	@name	JobPatch

// JobChanged is a change of a job that was made.
type JobChanged struct {
	At time.Time `json:"at" swaggertype:"string" format:"date-time"`
	// By is the key that asked for it; left out on a server without keys.
	By string `json:"by,omitempty"`
	JobPatch
} //	@name	ManagedJobChanged

// ChangePreview is what would come of a change of a job, if no other job comes: before is what is expected of the job
// without the change, and after with it.
type ChangePreview struct {
	Before Expected `json:"before"`
	After  Expected `json:"after"`
	// Delayed counts the other jobs that are expected to end at least a second later than without the change.
	Delayed int `json:"delayed"`
	// Delays are those that are delayed the most, at most 100.
	Delays []*Delay `json:"delays"`
	// Advanced counts the other jobs that are expected to end at least a second earlier.
	Advanced int `json:"advanced"`
	// Advances are those that gain the most, at most 100; by_s is by how much earlier they would end.
	Advances []*Delay `json:"advances"`
	// Assumes says what these times rest on.
	Assumes string `json:"assumes"`
} //	@name	JobChangePreview

// Attempt is one start of a job.
type Attempt struct {
	Attempt int64 `json:"attempt"` // from 1
	// Result is succeeded, failed, lost, cancelled, or moved (from a node that was drained), and is left out while the
	// attempt goes on.
	Result  string      `json:"result,omitempty" enums:"succeeded,failed,lost,cancelled,moved"`
	Error   string      `json:"error,omitempty"`
	Ordered time.Time   `json:"ordered" swaggertype:"string" format:"date-time"`
	Ended   *time.Time  `json:"ended,omitempty" swaggertype:"string" format:"date-time"`
	Tasks   []*TaskInfo `json:"tasks"`
} //	@name	ManagedAttempt

// TaskInfo is one process of an attempt. Task 0 of a relaxed round job is its home, without GPUs; its other tasks are
// those of rounds that have a GPU now.
type TaskInfo struct {
	Task  int      `json:"task"`
	Agent string   `json:"agent"`
	GPUs  []string `json:"gpus"` // node/index
	// State of a task of a round is waiting until the home runs.
	State TaskState `json:"state" swaggertype:"string" enums:"waiting,ordered,running,ended,lost"`
	// Round is that of a task of a round, and RoundTask its place there, both from 0.
	Round     *int64 `json:"round,omitempty"`
	RoundTask *int   `json:"round_task,omitempty"`
	// ExitCode is left out where the process has not ended, or was ended by a signal.
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Error    string `json:"error,omitempty"`
} //	@name	ManagedTask

// Expected is what is expected of a job in a preview.
type Expected struct {
	// ExpectedInS and ExpectedEndInS are the seconds until the start and the end that the plan expects. They
	// are left out where it expects nothing.
	ExpectedInS    *float64 `json:"expected_in_s,omitempty"`
	ExpectedEndInS *float64 `json:"expected_end_in_s,omitempty"`
	// EarliestEndInS is the proved least number of seconds until the end, if what the plan knows is right.
	EarliestEndInS *float64 `json:"earliest_end_in_s,omitempty"`
	// Place is that among the jobs that wait; it is left out where the job starts at once.
	Place int `json:"place,omitempty"`
	// Reason says what the job waits for. The codes are those of jobs, and length_unknown where the plan has no
	// start for it because it knows no time of it.
	Reason      string `json:"reason,omitempty"`
	ReasonShort string `json:"reason_short,omitempty"`
	ReasonCode  string `json:"reason_code,omitempty" enums:"no_service,busy,planned_later,reserved,fragmented,gathering,quota,next_plan,arriving,checkpoint,held,length_unknown"`
} //	@name	Expected

// Preview is what is expected of a job that is submitted now, if no other job comes.
type Preview struct {
	Expected
	// Delayed counts the jobs that are expected to end at least a second later than without the job.
	Delayed int `json:"delayed"`
	// Delays are those that are delayed the most, at most 100.
	Delays []*Delay `json:"delays"`
	// Sooner is the nearest smaller job that would start at least a second earlier; it is left out where none is
	// known or asked for.
	Sooner *Sooner `json:"sooner,omitempty"`
	// Assumes says what these times rest on.
	Assumes string `json:"assumes"`
} //	@name	JobPreview

// Sooner is a job that does the same work as another one, in which way it differs, and what is expected of it.
type Sooner struct {
	Expected
	// Gpus and nodes are those of a job with fewer GPUs, which is taken to need as many times longer.
	GPUs  int `json:"gpus,omitempty"`
	Nodes int `json:"nodes,omitempty"`
	// Tasks are those of a round of a job that shares GPUs.
	Tasks int `json:"tasks,omitempty"`
	// On are GPU types that it may run on as well.
	On []string `json:"on,omitempty"`
} //	@name	SoonerJob

// Delay is by how many seconds another job would end later.
type Delay struct {
	Job  string  `json:"job"`
	Name string  `json:"name,omitempty"`
	User string  `json:"user,omitempty"`
	ByS  float64 `json:"by_s"`
} //	@name	PreviewDelay

// JobList lists jobs.
type JobList struct {
	Jobs []*Job `json:"jobs"`
	// Total counts the jobs that match, of all pages.
	Total int `json:"total"`
	// Next is what to give as after for the jobs that follow. It is left out at the end.
	Next string `json:"next,omitempty"`
} //	@name	ManagedJobList

// Agent is an agent of a cluster: one node.
type Agent struct {
	Name    string `json:"name"`
	Epoch   int64  `json:"epoch"`
	Address string `json:"address,omitempty"`
	Version string `json:"version"`
	// State is ready, draining (runs what it has and gets nothing new), drained (has nothing left), or lost
	// (its lease has run out).
	State  string `json:"state" enums:"ready,draining,drained,lost"`
	Reason string `json:"reason,omitempty"`
	// SeenS is the number of seconds since the agent was last heard.
	SeenS  float64           `json:"seen_s"`
	Labels map[string]string `json:"labels,omitempty"`
	// Homes are the relaxed round jobs whose parameters the node holds.
	Homes []string `json:"homes,omitempty"`
	// Devices are the GPUs of the node.
	Devices []*Device `json:"devices"`
} //	@name	Agent

// Device is a GPU of an agent.
type Device struct {
	GPU  string `json:"gpu"` // node/index
	Type string `json:"type"`
	// UUID names the device for ever, where the driver gives one. Two agents may not claim the same one.
	UUID string `json:"uuid,omitempty"`
	// State is free, busy, or quarantined: a fault was seen, and nothing is started there.
	State  string `json:"state" enums:"free,busy,quarantined"`
	Reason string `json:"reason,omitempty"`
	Job    string `json:"job,omitempty"`
} //	@name	AgentDevice

// AgentList lists agents by name.
type AgentList struct {
	Agents []*Agent `json:"agents"`
} //	@name	AgentList

// Changes says what of a cluster has changed since the change of another number. Who reads it again has what the lists
// have. In a stream it is the data of an event changes; an event reset has seq alone, and says that everything is to
// be read.
type Changes struct {
	// Seq is the number of the last change. Numbers rise, with gaps.
	Seq int64 `json:"seq"`
	// Jobs have come or changed and have not ended; Removed have ended.
	Jobs    []string `json:"jobs,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Agents are those that have come, or whose state, devices or jobs have changed.
	Agents []string `json:"agents,omitempty"`
	// Reset says that everything is to be read: it is the name of the event.
	Reset bool `json:"-"`
	// Plan says that a new plan of the session is in force.
	Plan bool `json:"plan,omitempty"`
} //	@name	ManagedChanges

// History is what a cluster did, by time.
type History struct {
	// StepS is the time in seconds from one row to the next.
	StepS int64         `json:"step_s"`
	Rows  []*HistoryRow `json:"rows"`
} //	@name	ManagedHistory

// HistoryRow is what a cluster did in the time from At until the next row. Numbers of jobs and GPUs are exact means
// over that time, or over the part of it that is known.
type HistoryRow struct {
	At time.Time `json:"at" swaggertype:"string" format:"date-time"`
	// Waiting and Running are jobs; one that starts or stops runs.
	Waiting float64 `json:"waiting"`
	Running float64 `json:"running"`
	// WaitingGPUs are those that waiting jobs ask for.
	WaitingGPUs float64 `json:"waiting_gpus"`
	// Used are the GPUs that jobs have, and InService those that are well on nodes that are not lost, by type.
	Used      map[string]float64 `json:"used" swaggertype:"object,number"`
	InService map[string]float64 `json:"in_service" swaggertype:"object,number"`
	// Started counts the jobs that started for the first time, and Ended those that ended.
	Started int64 `json:"started"`
	Ended   int64 `json:"ended"`
	// WaitS is the mean time in seconds from their submission, of the jobs that started; left out where none did.
	WaitS *float64 `json:"wait_s,omitempty"`
} //	@name	ManagedHistoryRow

// Gantt is which jobs held, hold and are planned to have the GPUs of a cluster.
type Gantt struct {
	Now time.Time `json:"now" swaggertype:"string" format:"date-time"`
	// From and To are the time that is shown. From is later than was asked for where there would be too many spans.
	From time.Time `json:"from" swaggertype:"string" format:"date-time"`
	To   time.Time `json:"to" swaggertype:"string" format:"date-time"`
	// Rows are the GPUs, by type, node and index.
	Rows []GanttRow `json:"rows"`
	// Spans are by time. Those of relaxed round jobs, which share GPUs round by round, are now and planned ones alone.
	Spans []*GanttSpan `json:"spans"`
} //	@name	ManagedGantt

// GanttRow is a GPU.
type GanttRow struct {
	GPU  string `json:"gpu"` // node/index
	Type string `json:"type"`
	Node string `json:"node"`
} //	@name	ManagedGanttRow

// GanttSpan is the time for which a job has GPUs.
type GanttSpan struct {
	Job  string `json:"job"`
	Name string `json:"name"`
	// Rows are places in the list of rows, from 0. Those of a plan are an example: it has the type of the GPUs alone.
	Rows []int     `json:"rows"`
	From time.Time `json:"from" swaggertype:"string" format:"date-time"`
	// To is when a planned or running job is expected to end; now where nobody knows.
	To   time.Time `json:"to" swaggertype:"string" format:"date-time"`
	Kind string    `json:"kind" enums:"past,now,plan"`
	// EarliestEnd is when the job ends at the earliest, as is proved, if what the plan knows is right.
	EarliestEnd *time.Time `json:"earliest_end,omitempty" swaggertype:"string" format:"date-time"`
} //	@name	ManagedGanttSpan

// Drain asks that an agent gets nothing new.
type Drain struct {
	Reason string `json:"reason,omitempty"`
} //	@name	DrainRequest

// parametersText is the JSON form of the parameters of a policy.
type parametersText = json.RawMessage

// JobQuery says which jobs a list has, and in which order. The zero value means all jobs, by submission.
type JobQuery struct {
	// States are the states of the jobs; none means all.
	States []JobState
	// User is the user of the jobs.
	User string
	// Name is a part of their name, in upper or lower case.
	Name string
	// Type is a GPU type: of jobs that say where they may run, one of these types; of others, where they run or ran, and
	// while they wait any type.
	Type string
	// Labels are labels that the jobs have: key=value, or key for any value.
	Labels []string
	// Text is a part of the ID, name, user, module, of a label's value, or of the first 1,000 bytes of the command, in
	// upper or lower case.
	Text string
	// Sort is one of JobSorts, with - in front for the other direction; "" means submitted. Jobs of which it is not known
	// come last, and those that are alike stand by submission.
	Sort string
}

// JobSorts are what jobs may be sorted by.
func JobSorts() []string {
	return []string{"submitted", "place", "start", "end", "weight", "gpus", "user", "name", "state"}
}

// JobStates are the states of jobs, in the order in which jobs go through them; the final ones are last.
func JobStates() []JobState {
	return []JobState{JobWaiting, JobStarting, JobRunning, JobStopping, JobSucceeded, JobFailed, JobCancelled}
}

// Values are the query parameters of GET /v1/clusters/{cluster}/jobs.
func (q *JobQuery) Values() url.Values {
	v := url.Values{}
	for _, s := range q.States {
		v.Add("state", string(s))
	}
	for _, l := range q.Labels {
		v.Add("label", l)
	}
	for name, text := range map[string]string{"user": q.User, "name": q.Name, "type": q.Type, "q": q.Text,
		"sort": q.Sort} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}
