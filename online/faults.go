package online

import (
	"cmp"
	"slices"

	"fmt"

	"github.com/hare-sched/hare"
)

// This file has what every policy checks of events against the state of its session, with one text for each fault.

// CheckTime refuses an event before the time of the event before, or beyond all times.
func CheckTime(nowUs, beforeUs int64) *hare.InvalidError {
	if beforeUs <= nowUs && nowUs <= hare.MaxExact {
		return nil
	}
	return Invalid("/at_s", "time_out_of_order", "%s must lie between %s, the time of the event before, and %s",
		hare.FormatMicros(nowUs), hare.FormatMicros(beforeUs), hare.FormatMicros(hare.MaxExact))
}

// CheckGPUJoined checks a gpu_joined event; inService says whether the GPU is, and gpus how many are.
func CheckGPUJoined(e *hare.Event, inService bool, gpus int) *hare.InvalidError {
	switch {
	case e.GPU == "":
		return Invalid("/gpu", "missing_field", "gpu_joined needs the name of the GPU, node/index")
	case e.GPUType == "":
		return Invalid("/gpu_type", "missing_field", "gpu_joined needs the type of the GPU")
	case inService:
		return Invalid("/gpu", "duplicate_id", "GPU %q is in service already: send gpu_left first", e.GPU)
	case gpus >= hare.MaxGPUs:
		return Invalid("/gpu", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
	}
	return nil
}

// CheckNodeJoined checks a node_joined event of some GPUs, beside gpus in service; inService says whether GPUs of the
// node are, and lacks what Described.CheckLabels says of it.
func CheckNodeJoined(e *hare.Event, joining []hare.Event, inService bool, lacks *hare.InvalidError,
	gpus int) *hare.InvalidError {
	switch {
	case inService:
		return Invalid("/node", "duplicate_id", "GPUs of node %q are in service already: send node_left first",
			hare.Clip(e.Node().Name))
	case lacks != nil:
		return lacks
	case gpus+len(joining) > hare.MaxGPUs:
		return Invalid("/gpus", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
	}
	return nil
}

// NewTypes is how many GPU types of a node that joins are not known.
func NewTypes(joining []hare.Event, known func(gpuType string) bool) (fresh int) {
	for i := range joining {
		if (i == 0 || joining[i-1].GPUType != joining[i].GPUType) && !known(joining[i].GPUType) {
			fresh++
		}
	}
	return fresh
}

// LeavingNode is the name of the node of a node_left event, of which GPUs must be in service.
func LeavingNode(e *hare.Event, inService func(name string) bool) (string, *hare.InvalidError) {
	name := ""
	if e.Node() != nil {
		name = e.Node().Name
	}
	if !inService(name) {
		return "", Invalid("/node", "unknown_node", "no GPU of node %q is in service", hare.Clip(name))
	}
	return name, nil
}

// CheckMeasured checks the times of a task_ended event.
func CheckMeasured(e *hare.Event) *hare.InvalidError {
	if e.ComputeUs >= 0 && e.ComputeUs <= hare.MaxExact && e.SyncUs >= 0 && e.SyncUs <= hare.MaxExact {
		return nil
	}
	return Invalid("/compute_s", "out_of_range", "measured times must not be negative or above %s",
		hare.FormatMicros(hare.MaxExact))
}

// UnknownType is the fault of an event of a type that no version knew.
func UnknownType() *hare.InvalidError {
	return Invalid("/type", "unknown_type", "is not a type of event that this version knows")
}

// UnknownGPU is the fault of an event about a GPU that is not in service.
func UnknownGPU(name string) *hare.InvalidError {
	return Invalid("/gpu", "unknown_gpu", "no GPU %q is in service", name)
}

// UnknownJob is the fault of an event about a job that is not there.
func UnknownJob(id string) *hare.InvalidError {
	return Invalid("/job", "unknown_job", "no job %q runs or waits: it never arrived, or it has ended", id)
}

// DuplicateJob is the fault of a job that arrives while one of its ID is there.
func DuplicateJob(id string) *hare.InvalidError {
	return Invalid("/job/id", "duplicate_id", "job %q is there already: ids of jobs that have not ended must differ", id)
}

// WrongRound is the fault of an event about a task of another round than the one that runs.
func WrongRound(e *hare.Event, runs int64) *hare.InvalidError {
	return Invalid("/round", "wrong_round", "round %d of job %q is not the one that runs, %d", e.Round, e.Job, runs)
}

// NotRunning is the fault of an event about a task that does not run where the event says.
func NotRunning(e *hare.Event) *hare.InvalidError {
	return Invalid("/gpu", "not_running", "task %d of round %d of job %q does not run on GPU %q: it was never started "+
		"there, has ended, or was withdrawn", e.Task, e.Round, e.Job, e.GPU)
}

// NotComputing is the fault of a compute_ended event about a task that synchronises.
func NotComputing(e *hare.Event) *hare.InvalidError {
	return Invalid("/type", "not_computing", "task %d of job %q has ended its compute before, on GPU %q", e.Task, e.Job,
		e.GPU)
}

// SameDecisions compares two lists of decisions that may be in another order.
func SameDecisions(a, b []hare.Decision) bool {
	if slices.Equal(a, b) {
		return true
	}
	order := func(x, y hare.Decision) int {
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Job, y.Job), cmp.Compare(x.Task, y.Task),
			cmp.Compare(x.GPU, y.GPU))
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return slices.Equal(a, b)
}

// Invalid is the fault of a place in an event, the parameters or a document of a session.
func Invalid(pointer, code, format string, a ...any) *hare.InvalidError {
	return &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)}
}
