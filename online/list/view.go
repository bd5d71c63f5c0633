package list

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// This file has what rules may read of the state. What is returned belongs to the scheduler and must not be written
// to.

// NowUs is the time of the current event.
func (l *Scheduler) NowUs() int64 { return l.nowUs }

// Job is the job of an ID that has arrived and not ended, or nil.
func (l *Scheduler) Job(id string) *JobState { return l.jobOf[id] }

// Active are the jobs that have arrived and not ended, by arrival.
func (l *Scheduler) Active() []*JobState { return l.jobs }

// Jobs is how many jobs have arrived and not ended.
func (l *Scheduler) Jobs() int { return len(l.jobs) }

// Arrivals is how many jobs have arrived.
func (l *Scheduler) Arrivals() int { return l.serial }

// Types are the names of the GPU types that are known; elsewhere a type is its index here.
func (l *Scheduler) Types() []string { return l.types }

// TypeIndex is the index of a GPU type by its name; false where no GPU has been of the type.
func (l *Scheduler) TypeIndex(name string) (int, bool) {
	t, ok := l.typeOf[name]
	return t, ok
}

// Tick reports whether the event at hand is a tick.
func (l *Scheduler) Tick() bool { return l.tick }

// Slots are the GPUs; elsewhere a GPU is its index here.
func (l *Scheduler) Slots() []GPU { return l.gpus }

// Free are the GPUs of each type that are in service and that no job has, ascending.
func (l *Scheduler) Free() [][]int { return l.free }

func (l *Scheduler) AnyFree() bool {
	return slices.ContainsFunc(l.free, func(f []int) bool { return len(f) > 0 })
}

// InService is how many GPUs of each type are in service.
func (l *Scheduler) InService() []int { return l.inService }

// GPUs is how many GPUs are in service.
func (l *Scheduler) GPUs() int {
	n := 0
	for _, of := range l.inService {
		n += of
	}
	return n
}

// Capacity is a number that changes whenever the GPUs in service change, or whether the scheduler goes by nodes.
func (l *Scheduler) Capacity() int64 { return l.capacity }

// Nodes are the nodes with what is free on them, where some job that is there has rules about nodes; nil elsewhere.
func (l *Scheduler) Nodes() *placement.Nodes { return l.nodes }

// Topology is that of the cluster.
func (l *Scheduler) Topology() []string { return l.described.Topology() }

// Quotas are those in force, by user and types.
func (l *Scheduler) Quotas() []hare.Quota { return l.quotas }

// LearnsSizes reports whether the rule has LearnSizes.
func (l *Scheduler) LearnsSizes() bool { return l.belief != nil }

// SwitchUs is how long a GPU is lost when it begins another job, as far as is known; 0 where the rule takes no
// account of it.
func (l *Scheduler) SwitchUs() int64 { return l.rule.Setup.Us() }

// ReservedFor is the job for which the guard keeps a GPU, or nil.
func (l *Scheduler) ReservedFor(gpu int) *JobState { return l.guard.reservedBy[gpu] }

// ForgetReservations ends all that TryStart and StartOn keep for jobs that did not fit. A rule with Assign calls it
// first.
func (l *Scheduler) ForgetReservations() {
	l.reserved, l.onNodes, l.onQuotas = reservation{}, nil, nil
}

// Reserved reports whether GPUs are kept for a job that did not fit.
func (l *Scheduler) Reserved() bool { return l.reserved.forJob != nil }

// Promote starts the times of running and waiting of a job again, in the first queue.
func (l *Scheduler) Promote(j *JobState) {
	j.Queue, j.executedUs, j.waitedUs, j.sinceUs = 0, 0, 0, l.nowUs
}

// Reschedule makes a schedule follow the event at hand, or the next one.
func (l *Scheduler) Reschedule() { l.changed = true }

// SetOneNode sets Rule.OneNode.
func (l *Scheduler) SetOneNode(one bool) { l.rule.OneNode = one }
