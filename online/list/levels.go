package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

// Where the times of a job go by the spread of its rounds (docs/reference/model.md), a Scheduler expects a
// round to be as near together as GPUs in service allow if all of them are free, and a round that runs
// to take the time of its spread.

// spreadTimes are the expected times of synchronisation of a job, by profile.
type spreadTimes struct {
	syncUs []int64 // nil where no time goes by the spread
	// held is the spread of the GPUs that the job holds, by number of the level and 1 more; 0 means that
	// it is to be found.
	held int
}

// expectSpread finds the expected times of a job on the nodes in service, and reports whether they have
// changed.
func (l *Scheduler) expectSpread(j *JobState) (changed bool) {
	if l.nodes == nil || !slices.ContainsFunc(j.spec.On, func(p hare.Profile) bool { return p.SyncAt != nil }) {
		return false
	}
	if j.spread.syncUs == nil {
		j.spread.syncUs, changed = make([]int64, len(j.spec.On)), true
	}
	for i := range j.spec.On {
		p := &j.spec.On[i]
		us := p.SyncUs
		if t, known := l.typeOf[p.Type]; known {
			us = l.nodes.LeastSyncUs(j.shape, p, t, j.spec.Tasks)
		}
		changed = changed || us != j.spread.syncUs[i]
		j.spread.syncUs[i] = us
	}
	return changed
}

// givenSyncUs is the time of synchronisation that is expected by a profile of a job.
func (j *JobState) givenSyncUs(profile int) int64 {
	if j.spread.syncUs != nil {
		return j.spread.syncUs[profile]
	}
	return j.spec.On[profile].SyncUs
}

// arriveWithLevels sets the times of a job that arrives, which has a shape.
func (l *Scheduler) arriveWithLevels(j *JobState) {
	if l.expectSpread(j) {
		l.levelJobs++
		j.modes = l.modesOf(j)
	}
}

// expectSpreads finds the expected times of all jobs again after a change of what is in service. It takes
// O(jobs · nodes · levels) then at worst, where times go by the spread.
func (l *Scheduler) expectSpreads() {
	if l.spreadAt == l.capacity {
		return
	}
	if l.spreadAt = l.capacity; l.levelJobs == 0 {
		return
	}
	for _, j := range l.jobs {
		if j.spread.syncUs == nil {
			continue
		}
		if ls := l.rule.Speeds; ls != nil {
			ls.count(l, j, -1)
			if l.expectSpread(j) {
				j.modes = l.modesOf(j)
			}
			ls.count(l, j, 1)
			l.setSpeeds(j)
		} else if l.expectSpread(j) {
			j.modes = l.modesOf(j)
			j.timesVersion++
			l.touch(j)
		}
	}
}

// HeldUs is how long a round of a job takes on the GPUs that it holds, on one of their types.
func (l *Scheduler) HeldUs(j *JobState, gpuType int) int64 {
	us := j.DurationUs(gpuType)
	if j.spread.syncUs == nil || l.nodes == nil || len(j.gpus) == 0 || us != l.givenUs(j, gpuType) {
		return us // or as long as was measured
	}
	if j.spread.held == 0 {
		j.spread.held = 1 + l.nodes.Spread(j.gpus)
	}
	for i := range j.spec.On {
		if p := &j.spec.On[i]; p.Type == l.types[gpuType] && p.SyncAt != nil {
			return us - j.spread.syncUs[i] + l.nodes.SyncUs(p, j.spread.held-1)
		}
	}
	return us
}

// RoundEndUs is when the round of a job that runs is expected to end, now or later.
func (l *Scheduler) RoundEndUs(j *JobState) int64 { return max(l.nowUs, l.ProfiledEndUs(j)) }

// ProfiledEndUs is when the round of a job that runs should end by its profile.
func (l *Scheduler) ProfiledEndUs(j *JobState) int64 {
	end, slowest := int64(0), int64(0)
	for _, g := range j.gpus {
		slowest = max(slowest, l.HeldUs(j, l.gpus[g].Type))
	}
	if l.BeganWithSwitch(j) {
		slowest += l.rule.Setup.Us()
	}
	for _, g := range j.gpus {
		end = max(end, l.gpus[g].SinceUs+slowest)
	}
	return end
}
