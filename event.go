package hare

import "strings"

// EventType says what happened to an online session (docs/inside/design.md, section 6).
type EventType uint8

// These are the events. Each comment names the fields of Event that the event uses
// beside Seq, AtUs and Type.
const (
	EventTick       EventType = iota // no field: only time has passed
	EventJobArrived                  // Arrived
	// Job, Round, Task, GPU: a relaxed task has left its GPU and is still synchronising
	EventComputeEnded
	EventTaskEnded    // Job, Round, Task, GPU, ComputeUs, SyncUs: compute and synchronisation have ended
	EventTaskFailed   // Job, Round, Task, GPU: the task is lost and must be repeated
	EventJobEnded     // Job: the job has no more rounds
	EventJobCancelled // Job: the rest of the job and its running tasks are void
	EventGPUJoined    // GPU, GPUType, and Change.Node where the event describes the node
	EventGPULeft      // GPU: the GPU's task, if any, is lost and must be repeated
	EventNodeJoined   // Change.Node: a whole node joins, with all of its GPUs
	EventNodeLeft     // Change.Node, by its Name: all of its GPUs leave, and the node is forgotten
	EventSetQuota     // Change.Quota: from now on, in place of a quota of the same user and types
)

// eventNames are the JSON names by EventType.
var eventNames = [...]string{
	"tick", "job_arrived", "compute_ended", "task_ended", "task_failed",
	"job_ended", "job_cancelled", "gpu_joined", "gpu_left", "node_joined", "node_left", "set_quota",
}

// String returns the JSON name of the event.
func (et EventType) String() string {
	if int(et) < len(eventNames) {
		return eventNames[et]
	}
	return "unknown"
}

// EventTypes returns all types of events, in order.
func EventTypes() []EventType {
	all := make([]EventType, len(eventNames))
	for i := range all {
		all[i] = EventType(i)
	}
	return all
}

// Event is one line that a client of an online session sends.
type Event struct {
	Seq  int64 // numbered by the client from 1 without gaps
	AtUs int64 // never less than AtUs of the event before
	Type EventType
	// Job is the ID of the job, also in EventJobArrived.
	Job string
	// Arrived is the job that arrives. Its Rounds is 0, which means unknown. Its ReleaseUs
	// is 0, since a job is released when it arrives. A profile whose ComputeUs is 0 says
	// that the job may run there at a speed that is still to be learned.
	Arrived *Job
	Round   int64  // counts from 0
	Task    int64  // counts from 0 in its round
	GPU     string // node/index; of a task of several GPUs, the first
	GPUType string
	// Change is what the event says of a node or a quota; nil where it says nothing of either.
	Change *Change
	// ComputeUs and SyncUs are the measured times of the task that ended.
	ComputeUs, SyncUs int64
}

// Change is what an event says of the cluster beside GPUs.
type Change struct {
	// Node describes the node of the event. In EventGPUJoined it has no GPUs.
	Node *Node
	// Quota limits a user. One of MaxGPUs limits nothing, so that it ends an earlier one.
	Quota *Quota
}

// Node describes the node of the event; nil where nothing is said of it.
func (e *Event) Node() *Node {
	if e.Change == nil {
		return nil
	}
	return e.Change.Node
}

// Quota is the quota that the event sets; nil where it sets none.
func (e *Event) Quota() *Quota {
	if e.Change == nil {
		return nil
	}
	return e.Change.Quota
}

// DecisionType says what the client must do.
type DecisionType uint8

// These are the decisions.
const (
	DecisionStart    DecisionType = iota // start this task on this GPU now
	DecisionWithdraw                     // the start is void: the job ended or the GPU left
)

// String returns the JSON name of the decision.
func (dt DecisionType) String() string {
	if dt == DecisionWithdraw {
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
	GPU   string // the first GPU of the task
	// Others are the other GPUs of a task of several.
	Others OtherGPUs
	AtUs   int64
}

// GPUs names all GPUs of the task.
func (d *Decision) GPUs() []string {
	names := []string{d.GPU}
	if d.Others == "" {
		return names
	}
	node := d.GPU[:strings.IndexByte(d.GPU, '/')+1]
	for index := range strings.SplitSeq(string(d.Others), ",") {
		names = append(names, node+index)
	}
	return names
}

// OtherGPUs are GPUs of one node: their indices, with commas between them. It is a string so
// that decisions can be compared.
type OtherGPUs string

// OthersOf are the GPUs behind the first of gpus, which are named node/index and on one node.
func OthersOf(gpus []string) OtherGPUs {
	if len(gpus) < 2 {
		return ""
	}
	b := make([]byte, 0, 3*len(gpus))
	for i, name := range gpus[1:] {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, name[strings.IndexByte(name, '/')+1:]...)
	}
	return OtherGPUs(b)
}

// Answer is the line that answers one event of a client.
type Answer struct {
	Seq       int64
	Decisions []Decision
}
