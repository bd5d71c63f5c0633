package list

import (
	"cmp"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// This file says when jobs that run are expected to release their GPUs.

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

// RoundEndUs is when the round of a job that runs is expected to end, now or later.
func (l *Scheduler) RoundEndUs(j *JobState) int64 { return max(l.nowUs, l.ProfiledEndUs(j)) }

// expectedEndUs is when a job is expected to release a GPU.
func (l *Scheduler) expectedEndUs(j *JobState, _ int) int64 {
	slowest, sinceUs := int64(0), int64(0)
	for _, g := range j.gpus {
		slowest = max(slowest, l.HeldUs(j, l.gpus[g].Type))
		sinceUs = max(sinceUs, l.gpus[g].SinceUs)
	}
	if slowest == 0 {
		slowest = l.RoundUs(j)
	}
	end := sinceUs + slowest
	if j.hold == hare.Rigid {
		end += SpanUs(j.RoundsLeft()-1, slowest)
	}
	return end
}

// gpuEnd is a held GPU and when its job is expected to release it.
type gpuEnd struct {
	atUs    int64
	gpuType int
}

// expectedEnds lists the held GPUs by the times at which their jobs are expected to
// release them.
func (l *Scheduler) expectedEnds() []gpuEnd {
	var ends []gpuEnd
	for _, j := range l.jobs {
		slowest := int64(0)
		for _, g := range j.gpus {
			slowest = max(slowest, j.DurationUs(l.gpus[g].Type))
		}
		if slowest == 0 {
			slowest = l.RoundUs(j)
		}
		for _, g := range j.gpus {
			x := &l.gpus[g]
			end := x.SinceUs + slowest
			if j.hold == hare.Rigid {
				end += SpanUs(j.RoundsLeft()-1, slowest)
			}
			ends = append(ends, gpuEnd{max(end, l.nowUs), x.Type})
		}
	}
	slices.SortFunc(ends, func(a, b gpuEnd) int {
		return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.gpuType, b.gpuType))
	})
	return ends
}

// jobEndUs is when a job that starts now in a mode is expected to end.
func (l *Scheduler) jobEndUs(j *JobState, m Mode) int64 {
	if m.DurationUs == 0 {
		return math.MaxInt64
	}
	return add(l.nowUs, SpanUs(j.RoundsLeft(), m.DurationUs))
}

// gpuAvailable is a GPU and when it is expected to be free; those that rigid jobs hold come
// last.
type gpuAvailable struct {
	rigid bool
	atUs  int64
	gpu   int
}

func (ga *gpuAvailable) before(o *gpuAvailable) int {
	switch {
	case ga.rigid != o.rigid:
		if o.rigid {
			return -1
		}
		return 1
	case ga.atUs != o.atUs:
		if ga.atUs < o.atUs {
			return -1
		}
		return 1
	}
	return ga.gpu - o.gpu
}

// available is when a GPU that is in service is expected to be free.
func (l *Scheduler) available(g int) gpuAvailable {
	out := gpuAvailable{gpu: g, atUs: l.nowUs}
	if o := l.gpus[g].Job; o != nil {
		out.atUs = l.RoundEndUs(o)
		if out.rigid = o.spec.Sync == hare.Rigid; out.rigid && l.rule.Guard.size != nil {
			out.atUs = add(out.atUs, SpanUs(l.rule.Guard.size(o)-1, l.HeldUs(o, l.gpus[g].Type)))
		}
	}
	return out
}

// Use describes a GPU in service by the end that is expected of its job.
func (l *Scheduler) Use(g int, endUs func(*JobState, int) int64) placement.Use {
	x := &l.gpus[g]
	if x.Job == nil {
		return placement.Use{}
	}
	u := placement.Use{AtUs: max(endUs(x.Job, g), l.nowUs)}
	if x.lead {
		u.CPUMilli, u.MemoryMiB = l.nodes.Uses(x.Job.shape)
	}
	return u
}
