package openapi

// Session is an online session.
type Session struct {
	ID         string                 `json:"id" validate:"required"`
	Created    string                 `json:"created" validate:"required" format:"date-time"`
	Policy     string                 `json:"policy" validate:"required"`
	Parameters map[string]interface{} `json:"parameters,omitempty"`
	Clock      string                 `json:"clock" validate:"required" enums:"events,server"`
	// GPUs that were there when it began.
	GPUs int64 `json:"gpus" validate:"required"`
	// LastSeq is the last durable event: the next one has the number behind it.
	LastSeq int64 `json:"last_seq" validate:"required"`
	// Active says that its state is in memory.
	Active bool `json:"active" validate:"required"`
	// Status is there for one session, not in lists.
	Status SessionStatus `json:"status,omitempty"`
} //	@name	Session

// SessionList lists sessions, the oldest first.
type SessionList struct {
	Sessions []Session `json:"sessions" validate:"required"`
	// Next is there where more follow: GET /v1/sessions?after= it gives them.
	Next string `json:"next,omitempty"`
} //	@name	SessionList

// SessionStatus is what a session looks like behind its last event.
type SessionStatus struct {
	Policy string `json:"policy" validate:"required"`
	NowUs  int64  `json:"now_us" validate:"required"`
	Jobs   int64  `json:"jobs" validate:"required"`
	// WaitingTasks could start now if there were GPUs.
	WaitingTasks int64         `json:"waiting_tasks" validate:"required"`
	RunningTasks int64         `json:"running_tasks" validate:"required"`
	Queues       []QueueStatus `json:"queues" validate:"required"`
	GPUs         []TypeStatus  `json:"gpus" validate:"required"`
} //	@name	SessionStatus

// QueueStatus is one queue, the first served first.
type QueueStatus struct {
	Name string `json:"name" validate:"required"`
	Jobs int64  `json:"jobs" validate:"required"`
	// Waiting are the jobs of which no task runs.
	Waiting int64 `json:"waiting" validate:"required"`
	// ThresholdUs is the attained service after which jobs leave the queue, in microseconds of a GPU of the reference type.
	ThresholdUs int64 `json:"threshold_us,omitempty"`
} //	@name	QueueStatus

// TypeStatus is one GPU type.
type TypeStatus struct {
	Type      string `json:"type" validate:"required"`
	InService int64  `json:"in_service" validate:"required"`
	Free      int64  `json:"free" validate:"required"`
	// Gathered are free and kept for the gang that gathered_for names.
	Gathered    int64  `json:"gathered" validate:"required"`
	Held        int64  `json:"held" validate:"required"`
	GatheredFor string `json:"gathered_for,omitempty"`
} //	@name	TypeStatus

// SessionJob is one active job: where it stands, and why it waits.
type SessionJob struct {
	Job   string `json:"job" validate:"required"`
	Sync  string `json:"sync" validate:"required" enums:"relaxed,gang,rigid"`
	State string `json:"state" validate:"required" enums:"waiting,gathering,running"`
	Round int64  `json:"round" validate:"required"`
	Tasks int64  `json:"tasks" validate:"required"`
	// TasksReady could start now.
	TasksReady   int64 `json:"tasks_ready" validate:"required"`
	TasksRunning int64 `json:"tasks_running" validate:"required"`
	// TasksEnded are those of the round.
	TasksEnded int64 `json:"tasks_ended" validate:"required"`
	ArrivedUs  int64 `json:"arrived_us" validate:"required"`
	// StartedUs is the first start, −1 before it.
	StartedUs int64  `json:"started_us" validate:"required"`
	Queue     string `json:"queue" validate:"required"`
	// AttainedUs is the service in all, in microseconds of a GPU of the reference type.
	AttainedUs int64 `json:"attained_us" validate:"required"`
	// CountedUs is the service that decides the queue.
	CountedUs  int64 `json:"counted_us" validate:"required"`
	ExecutedUs int64 `json:"executed_us" validate:"required"`
	WaitedUs   int64 `json:"waited_us" validate:"required"`
	// GuardUs is when the starvation guard acts if the job waits until then, −1 where it has nothing to do.
	GuardUs int64 `json:"guard_us" validate:"required"`
	// JobsAhead stand before it and may use a type that it may use.
	JobsAhead int64 `json:"jobs_ahead" validate:"required"`
	// GPUType is where its next task would go were all GPUs free.
	GPUType string       `json:"gpu_type" validate:"required"`
	Speeds  []SpeedGuess `json:"speeds" validate:"required"`
	// Why says in words why it waits and what would change that.
	Why string `json:"why" validate:"required"`
} //	@name	SessionJob

// SpeedGuess is what is believed of a job on a type.
type SpeedGuess struct {
	Type      string `json:"type" validate:"required"`
	ComputeUs int64  `json:"compute_us" validate:"required"`
	Source    string `json:"source" validate:"required" enums:"given,measured,prior"`
} //	@name	SpeedGuess

// Answer is the line that answers an event: decisions, or an error.
type Answer struct {
	// Seq is that of the event; null where it could not be read.
	Seq       int64      `json:"seq" validate:"required" extensions:"x-nullable"`
	Decisions []Decision `json:"decisions,omitempty"`
	Error     EventError `json:"error,omitempty"`
} //	@name	Answer

// EventError says why a line of events was refused; it changed nothing.
type EventError struct {
	// Status is that of a request that was refused for the same reason.
	Status int64 `json:"status" validate:"required"`
	// Line counts the lines of the request from 1.
	Line int64 `json:"line,omitempty"`
	// Pointer (RFC 6901) into the line.
	Pointer string `json:"pointer" validate:"required"`
	Code    string `json:"code" validate:"required"`
	Detail  string `json:"detail" validate:"required"`
	// Expected is the number of the event that must come next.
	Expected int64 `json:"expected,omitempty"`
	// Errors has all faults where there are several.
	Errors []ProblemError `json:"errors,omitempty"`
} //	@name	EventError

// Regret compares what a session achieved with the best in hindsight.
type Regret struct {
	// Seq is the last event that was looked at.
	Seq int64 `json:"seq" validate:"required"`
	// AtS is the end of the interval; of the last line the time of the last event.
	AtS float64 `json:"at_s" validate:"required"`
	// Last says that all of the log was looked at, and that no line follows.
	Last bool       `json:"last" validate:"required"`
	Jobs RegretJobs `json:"jobs" validate:"required"`
	// Achieved is the weighted completion time of the jobs that are counted.
	Achieved float64 `json:"achieved" validate:"required"`
	// Bound below it; null where nothing is counted.
	Bound float64 `json:"bound" validate:"required" extensions:"x-nullable"`
	// Regret is achieved/bound, rounded up at six decimals; null without a useful bound.
	Regret float64 `json:"regret" validate:"required" extensions:"x-nullable"`
	Method string  `json:"method,omitempty"`
	// Holds says which plans the bound is true for.
	Holds string `json:"holds" validate:"required"`
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
	Counted   int64 `json:"counted" validate:"required"`
	Running   int64 `json:"running" validate:"required"`
	Cancelled int64 `json:"cancelled" validate:"required"`
	// Empty ended without a whole round, or with a task that took no time at all.
	Empty int64 `json:"empty" validate:"required"`
} //	@name	RegretJobs

// Followed is the plan that a session followed.
type Followed struct {
	Seq int64   `json:"seq" validate:"required"`
	AtS float64 `json:"at_s" validate:"required"`
	// Verified: result is a schedule for instance that verification accepts.
	Verified bool `json:"verified" validate:"required"`
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
	Hare           string      `json:"hare" validate:"required" enums:"result/v1"`
	InstanceSHA256 string      `json:"instance_sha256" validate:"required"`
	Version        string      `json:"version" validate:"required"`
	Objective      string      `json:"objective" validate:"required" enums:"weighted_jct"`
	Value          float64     `json:"value" validate:"required"`
	Jobs           []JobResult `json:"jobs" validate:"required"`
	Schedule       Schedule    `json:"schedule" validate:"required"`
} //	@name	FollowedResult
