package ledger

import (
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// arrival is the job as it arrives at the session of a cluster with GPUs of these types.
func arrival(id string, spec *clusterdoc.NewJob, types map[string]bool) *hare.Job {
	tasks, perTask := processes(spec)
	a := &hare.Job{ID: id, WeightMicro: 1e6, Sync: hare.Rigid, Tasks: int64(tasks),
		DistinctNodes: spec.Nodes > 1}
	if perTask > 1 {
		a.GPUsPerTask = int64(perTask)
	}
	if Shares(spec) {
		a.Sync, a.Tasks = hare.Relaxed, int64(RoundTasks(spec))
	}
	if spec.Weight != nil {
		a.WeightMicro = micros(*spec.Weight)
	}
	on := spec.On
	if len(on) == 0 {
		on = map[string]float64{}
		for t := range types {
			on[t] = 0
		}
	}
	for _, t := range slices.Sorted(maps.Keys(on)) {
		a.On = append(a.On, hare.Profile{Type: t, ComputeUs: micros(seconds(spec, t))})
	}
	if spec.EstimateS != nil || len(spec.Class) > 0 {
		a.Hints = &hare.JobHints{}
		if spec.EstimateS != nil {
			a.Hints.EstimateUs = micros(*spec.EstimateS)
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Class)) {
			a.Hints.Class = append(a.Hints.Class, hare.ClassLabel{Name: name, Value: spec.Class[name]})
		}
	}
	return a
}

// processes is how many processes a job has, and how many GPUs each of them. A round job has one process a node.
func processes(spec *clusterdoc.NewJob) (tasks, perTask int) {
	gpus, perTask := max(1, spec.GPUs), max(1, spec.GPUsPerTask)
	switch {
	case spec.Module != "":
		perTask = gpus / max(1, spec.Nodes)
	case spec.Nodes > 0 && spec.GPUsPerTask == 0:
		perTask = gpus / spec.Nodes
	}
	return gpus / perTask, perTask
}

// seconds is how long the job, or a task of a round of a relaxed job, says that it takes on a type; 0 means that it
// does not say.
func seconds(spec *clusterdoc.NewJob, gpuType string) float64 {
	if spec.Module != "" && !Shares(spec) {
		return spec.On[gpuType] * float64(spec.Rounds)
	}
	return spec.On[gpuType]
}

// LeastSeconds is how long the job says that it takes where it takes the least; false where it does not say for some
// type, or has no GPUs of its own.
func LeastSeconds(spec *clusterdoc.NewJob) (least float64, ok bool) {
	if Shares(spec) {
		return 0, false
	}
	for t := range spec.On {
		s := seconds(spec, t)
		if s == 0 {
			return 0, false
		}
		if !ok || s < least {
			least, ok = s, true
		}
	}
	return least, ok
}

// RoundTasks is the number of tasks of a round of a round job.
func RoundTasks(spec *clusterdoc.NewJob) int {
	if spec.Tasks > 0 {
		return spec.Tasks
	}
	return max(1, spec.GPUs)
}

// micros rounds a number of seconds or a weight to units of 1e-6.
func micros(x float64) int64 { return int64(x*1e6 + 0.5) }

// Shares reports whether a round job shares GPUs with other jobs round by round.
func Shares(spec *clusterdoc.NewJob) bool { return spec.Module != "" && spec.Sync == SyncRelaxed }

// pretends reports whether pretended devices play the tasks of a job.
func pretends(spec *clusterdoc.NewJob) bool {
	for _, s := range spec.On {
		if s > 0 {
			return true
		}
	}
	return false
}

// How the tasks of a round are given to GPUs.
const (
	SyncRelaxed = "relaxed" // each to any GPU that the session gives; GPUs are shared with other jobs round by round
	SyncRigid   = "rigid"   // each to whichever is free of the job's own GPUs
	SyncGang    = "gang"    // task i to GPU i of the job's own
)

// WithSync is a job with the sync that it has where it says none: relaxed for a round job that says neither gpus nor
// nodes, and rigid for one that does.
func WithSync(j clusterdoc.NewJob) clusterdoc.NewJob {
	if j.Module != "" && j.Sync == "" {
		j.Sync = SyncRelaxed
		if j.GPUs != 0 || j.Nodes != 0 {
			j.Sync = SyncRigid
		}
	}
	return j
}

// WithEstimate is a job with an estimate of its whole length: where it has none, the least of the times that it
// states.
func WithEstimate(j clusterdoc.NewJob) clusterdoc.NewJob {
	if j.EstimateS != nil {
		return j
	}
	for _, s := range j.On {
		if s *= float64(max(1, j.Rounds)); s > 0 && s <= maxSeconds && (j.EstimateS == nil || s < *j.EstimateS) {
			j.EstimateS = &s
		}
	}
	return j
}

// Name is what a job is called that says no name of its own.
func Name(j *clusterdoc.NewJob) string {
	switch {
	case j.Name != "":
		return j.Name
	case len(j.Command) > 0:
		return hare.Clip(j.Command[0][strings.LastIndexByte(j.Command[0], '/')+1:])
	}
	return hare.Clip(j.Module)
}
