package hare

// EventType says what happened to an online session (docs/design.md, section 6).
type EventType uint8

// The events. Each names the fields of Event that it uses beside Seq, AtUs and Type.
const (
	EventTick         EventType = iota // nothing but time passed
	EventJobArrived                    // Arrived
	EventComputeEnded                  // Job, Round, Task, GPU: a relaxed task leaves its GPU and goes on synchronising
	EventTaskEnded                     // Job, Round, Task, GPU, ComputeUs, SyncUs: compute and synchronisation have ended
	EventTaskFailed                    // Job, Round, Task, GPU: the task is lost and must be repeated
	EventJobEnded                      // Job: it has no more rounds
	EventJobCancelled                  // Job: what is left of it, and what runs of it, is void
	EventGPUJoined                     // GPU, GPUType
	EventGPULeft                       // GPU: its task, if any, is lost and must be repeated
)

// eventNames are the JSON names, by EventType.
var eventNames = [...]string{
	"tick", "job_arrived", "compute_ended", "task_ended", "task_failed",
	"job_ended", "job_cancelled", "gpu_joined", "gpu_left",
}

// String is the JSON name of the event.
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "unknown"
}

// EventTypes are all types of events, in order.
func EventTypes() []EventType {
	all := make([]EventType, len(eventNames))
	for i := range all {
		all[i] = EventType(i)
	}
	return all
}

// Event is one line that a client of an online session sends.
type Event struct {
	Seq  int64 // the client's, from 1 without gaps
	AtUs int64 // never less than that of the event before
	Type EventType
	// Job is the id of the job, also where it arrives.
	Job string
	// Arrived is the job that arrives. Its Rounds is 0, unknown; its ReleaseUs
	// is 0, since it is released when it arrives. A profile whose ComputeUs is
	// 0 says that the job may run there at a speed to be learned.
	Arrived *Job
	Round   int64  // from 0
	Task    int64  // from 0 in its round
	GPU     string // node/index
	GPUType string
	// ComputeUs and SyncUs are the measured times of the task that ended.
	ComputeUs, SyncUs int64
}

// DecisionType says what a client has to do.
type DecisionType uint8

// The decisions.
const (
	DecisionStart    DecisionType = iota // start this task on this GPU now
	DecisionWithdraw                     // the start is void: the job ended or the GPU left
)

// String is the JSON name of the decision.
func (t DecisionType) String() string {
	if t == DecisionWithdraw {
		return "withdraw"
	}
	return "start"
}

// Decision tells a client which task starts where.
type Decision struct {
	Type  DecisionType
	Job   string
	Round int64
	Task  int64
	GPU   string
	AtUs  int64
}

// Answer is the line that answers one event.
type Answer struct {
	Seq       int64
	Decisions []Decision
}
