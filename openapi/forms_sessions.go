package openapi

// Session is an online session.
type Session struct {
	ID         string                 `json:"id"`
	Created    string                 `json:"created" format:"date-time"`
	Policy     string                 `json:"policy"`
	Parameters map[string]interface{} `json:"parameters,omitempty"`
	Clock      string                 `json:"clock" enums:"events,server"`
	// GPUs that were there when it began.
	GPUs int64 `json:"gpus"`
	// LastSeq is the last durable event: the next one has the number behind it.
	LastSeq int64 `json:"last_seq"`
	// Active says that its state is in memory.
	Active bool `json:"active"`
	// Status is there for one session, not in lists.
	Status SessionStatus `json:"status,omitempty"`
} //	@name	Session

// SessionList lists sessions, the oldest first.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	// Next is there where more follow: GET /v1/sessions?after= it gives them.
	Next string `json:"next,omitempty"`
} //	@name	SessionList

// SessionStatus is what a session looks like behind its last event.
type SessionStatus struct {
	Policy string `json:"policy"`
	NowUs  int64  `json:"now_us"`
	Jobs   int64  `json:"jobs"`
	// WaitingTasks could start now if there were GPUs.
	WaitingTasks int64         `json:"waiting_tasks"`
	RunningTasks int64         `json:"running_tasks"`
	Queues       []QueueStatus `json:"queues"`
	GPUs         []TypeStatus  `json:"gpus"`
} //	@name	SessionStatus

// QueueStatus is one queue, the first served first.
type QueueStatus struct {
	Name string `json:"name"`
	Jobs int64  `json:"jobs"`
	// Waiting are the jobs of which no task runs.
	Waiting int64 `json:"waiting"`
	// ThresholdUs is the attained service after which jobs leave the queue, in microseconds of a GPU of the reference type.
	ThresholdUs int64 `json:"threshold_us,omitempty"`
} //	@name	QueueStatus

// TypeStatus is one GPU type.
type TypeStatus struct {
	Type      string `json:"type"`
	InService int64  `json:"in_service"`
	Free      int64  `json:"free"`
	// Gathered are free and kept for the gang that gathered_for names.
	Gathered    int64  `json:"gathered"`
	Held        int64  `json:"held"`
	GatheredFor string `json:"gathered_for,omitempty"`
} //	@name	TypeStatus

// SessionJob is one active job: where it stands, and why it waits.
type SessionJob struct {
	Job   string `json:"job"`
	Sync  string `json:"sync" enums:"relaxed,gang,rigid"`
	State string `json:"state" enums:"waiting,gathering,running"`
	Round int64  `json:"round"`
	Tasks int64  `json:"tasks"`
	// TasksReady could start now.
	TasksReady   int64 `json:"tasks_ready"`
	TasksRunning int64 `json:"tasks_running"`
	// TasksEnded are those of the round.
	TasksEnded int64 `json:"tasks_ended"`
	ArrivedUs  int64 `json:"arrived_us"`
	// StartedUs is the first start, −1 before it.
	StartedUs int64  `json:"started_us"`
	Queue     string `json:"queue"`
	// AttainedUs is the service in all, in microseconds of a GPU of the reference type.
	AttainedUs int64 `json:"attained_us"`
	// CountedUs is the service that decides the queue.
	CountedUs  int64 `json:"counted_us"`
	ExecutedUs int64 `json:"executed_us"`
	WaitedUs   int64 `json:"waited_us"`
	// GuardUs is when the starvation guard acts if the job waits until then, −1 where it has nothing to do.
	GuardUs int64 `json:"guard_us"`
	// JobsAhead stand before it and may use a type that it may use.
	JobsAhead int64 `json:"jobs_ahead"`
	// GPUType is where its next task would go were all GPUs free.
	GPUType string       `json:"gpu_type"`
	Speeds  []SpeedGuess `json:"speeds"`
	// Why says in words why it waits and what would change that.
	Why string `json:"why"`
} //	@name	SessionJob

// SpeedGuess is what is believed of a job on a type.
type SpeedGuess struct {
	Type      string `json:"type"`
	ComputeUs int64  `json:"compute_us"`
	Source    string `json:"source" enums:"given,measured,prior"`
} //	@name	SpeedGuess

// Answer is the line that answers an event: decisions, or an error.
type Answer struct {
	// Seq is that of the event; null where it could not be read.
	Seq       *int64     `json:"seq"`
	Decisions []Decision `json:"decisions,omitempty"`
	Error     EventError `json:"error,omitempty"`
} //	@name	Answer

// EventError says why a line of events was refused; it changed nothing.
type EventError struct {
	// Status is that of a request that was refused for the same reason.
	Status int64 `json:"status"`
	// Line counts the lines of the request from 1.
	Line int64 `json:"line,omitempty"`
	// Pointer (RFC 6901) into the line.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	// Expected is the number of the event that must come next.
	Expected int64 `json:"expected,omitempty"`
	// Errors has all faults where there are several.
	Errors []ProblemError `json:"errors,omitempty"`
} //	@name	EventError

// Regret compares what a session achieved with the best in hindsight.
type Regret struct {
	// Seq is the last event that was looked at.
	Seq int64 `json:"seq"`
	// AtS is the end of the interval; of the last line the time of the last event.
	AtS float64 `json:"at_s"`
	// Last says that all of the log was looked at, and that no line follows.
	Last bool       `json:"last"`
	Jobs RegretJobs `json:"jobs"`
	// Achieved is the weighted completion time of the jobs that are counted.
	Achieved float64 `json:"achieved"`
	// Bound below it; null where nothing is counted.
	Bound *float64 `json:"bound"`
	// Regret is achieved/bound, rounded up at six decimals; null without a useful bound.
	Regret *float64 `json:"regret"`
	Method string   `json:"method,omitempty"`
	// Holds says which plans the bound is true for.
	Holds string `json:"holds"`
	// Notes say what was left out or assumed.
	Notes []string `json:"notes,omitempty"`
	// Certificate proves the bound for the instance; with detail full.
	Certificate Certificate `json:"certificate,omitempty"`
	// Instance is the session as it turned out; with detail full.
	Instance Instance `json:"instance,omitempty"`
} //	@name	Regret

// RegretJobs counts the jobs of a session.
type RegretJobs struct {
	// Counted have ended.
	Counted   int64 `json:"counted"`
	Running   int64 `json:"running"`
	Cancelled int64 `json:"cancelled"`
	// Empty ended without a whole round, or with a task that took no time at all.
	Empty int64 `json:"empty"`
} //	@name	RegretJobs

// Followed is the plan that a session followed.
type Followed struct {
	Seq int64   `json:"seq"`
	AtS float64 `json:"at_s"`
	// Verified: result is a schedule for instance that verification accepts.
	Verified bool `json:"verified"`
	// Why there is no schedule.
	Why string `json:"why,omitempty"`
	// Renamed gives the session's names of GPUs that have others in the instance, where each GPU that came or went is a node of its own.
	Renamed  map[string]string `json:"renamed,omitempty"`
	Instance Instance          `json:"instance,omitempty"`
	Result   FollowedResult    `json:"result,omitempty"`
	// Tasks that ended, by start; without a result.
	Tasks []Task `json:"tasks,omitempty"`
} //	@name	Followed

// FollowedResult is a result without what only a solve has.
type FollowedResult struct {
	Hare           string      `json:"hare" enums:"result/v1"`
	InstanceSHA256 string      `json:"instance_sha256"`
	Version        string      `json:"version"`
	Objective      string      `json:"objective" enums:"weighted_jct"`
	Value          float64     `json:"value"`
	Jobs           []JobResult `json:"jobs"`
	Schedule       Schedule    `json:"schedule"`
} //	@name	FollowedResult
