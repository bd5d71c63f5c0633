package openapi

// Solve is a solve that the server keeps: where it stands, not its schedule.
type Solve struct {
	ID string `json:"id" validate:"required"`
	// Status says how far it is; why it stopped is the termination.
	Status string `json:"status" validate:"required" enums:"queued,running,succeeded,cancelled,failed"`
	// Termination is there when it has ended with an answer.
	Termination string `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	// Phase is what the solver does while it runs.
	Phase string `json:"phase,omitempty"`
	// QueuePosition is there while it waits: 1 is next.
	QueuePosition  int64  `json:"queue_position,omitempty"`
	Created        string `json:"created" validate:"required" format:"date-time"`
	Started        string `json:"started,omitempty" format:"date-time"`
	Ended          string `json:"ended,omitempty" format:"date-time"`
	InstanceSHA256 string `json:"instance_sha256" validate:"required"`
	Jobs           int64  `json:"jobs" validate:"required"`
	GPUs           int64  `json:"gpus" validate:"required"`
	// Options are all of them, defaults filled in.
	Options Options `json:"options" validate:"required"`
	// Value of the best schedule so far; null before there is one.
	Value float64 `json:"value" validate:"required" extensions:"x-nullable"`
	// Bound is the best so far; null before there is one.
	Bound float64 `json:"bound" validate:"required" extensions:"x-nullable"`
	// Gap is value/bound − 1, rounded up at six decimals; null without a useful bound.
	Gap float64 `json:"gap" validate:"required" extensions:"x-nullable"`
	// Cached says that the answer to an equal call was taken.
	Cached bool `json:"cached" validate:"required"`
	// Resumed says that it went on after a restart of the server.
	Resumed bool `json:"resumed,omitempty"`
	// Degraded: the server had too much to do, and the options allowed a greedy schedule and a coarse bound.
	Degraded bool `json:"degraded,omitempty"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
	// Events is the id of the last one.
	Events int64 `json:"events" validate:"required"`
	// ResultBytes is the size of the result when the solve has ended.
	ResultBytes int64      `json:"result_bytes,omitempty"`
	Links       SolveLinks `json:"links" validate:"required"`
} //	@name	Solve

// SolveLinks are paths on this server; those of what is not there are left out.
type SolveLinks struct {
	Self        string `json:"self" validate:"required"`
	Events      string `json:"events" validate:"required"`
	Instance    string `json:"instance" validate:"required"`
	Cancel      string `json:"cancel,omitempty"`
	Result      string `json:"result,omitempty"`
	Schedule    string `json:"schedule,omitempty"`
	Gantt       string `json:"gantt,omitempty"`
	Certificate string `json:"certificate,omitempty"`
} //	@name	SolveLinks

// SolveList lists solves, the newest first.
type SolveList struct {
	Solves []Solve `json:"solves" validate:"required"`
	// Next is there where more follow: GET /v1/solves?after= it gives them.
	Next  string         `json:"next,omitempty"`
	Links SolveListLinks `json:"links" validate:"required"`
} //	@name	SolveList

// SolveListLinks are paths on this server.
type SolveListLinks struct {
	// Next is the rest of the list, with the same filters; left out at its end.
	Next string `json:"next,omitempty"`
} //	@name	SolveListLinks

// SolveEvent is something that happened to a solve.
type SolveEvent struct {
	// Seq counts the events of the solve from 1; it is the id of a server-sent event.
	Seq int64 `json:"seq" validate:"required"`
	// AtS is the time since the solve was taken in, in seconds.
	AtS  float64 `json:"at_s" validate:"required"`
	Type string  `json:"type" validate:"required" enums:"status,phase,incumbent,bound,checkpoint,done"`
	// Status is there with status and done.
	Status string `json:"status,omitempty" enums:"queued,running,succeeded,cancelled,failed"`
	// Phase is what the solver does: a first schedule, prices for the bound and for the search, the search, the check.
	Phase string `json:"phase,omitempty"`
	// Termination is there with done.
	Termination   string `json:"termination,omitempty" enums:"optimal,gap,work_limit,deadline,cancelled,infeasible,no_schedule"`
	QueuePosition int64  `json:"queue_position,omitempty"`
	// Value of the best schedule so far, left out before there is one.
	Value float64 `json:"value,omitempty"`
	// Bound is the best so far, left out before there is one.
	Bound float64 `json:"bound,omitempty"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
} //	@name	SolveEvent
