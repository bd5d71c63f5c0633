package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

// givenUs is the time of a round by the job's profile, 0 where the profile gives none.
func (l *Scheduler) givenUs(j *JobState, gpuType int) int64 {
	for i := range j.spec.On {
		if p := &j.spec.On[i]; p.Type == l.types[gpuType] && p.ComputeUs > 0 {
			return p.ComputeUs + j.givenSyncUs(i)
		}
	}
	return 0
}

// knownUs is the time of a round of a job on a type as it was measured, or else given; 0
// where neither is the case.
func (l *Scheduler) knownUs(j *JobState, gpuType int) int64 {
	given := l.givenUs(j, gpuType)
	for i := range j.measured {
		if m := &j.measured[i]; m.Type == gpuType && (given == 0 || len(m.Us) >= trustMeasured) {
			var last [measuredRounds]int64
			sorted := last[:copy(last[:], m.Us)]
			slices.Sort(sorted)
			return max(1, sorted[(len(sorted)-1)/2])
		}
	}
	return given
}

// fastestKnown is the type on which a round of a job takes least, as far as is known, and
// that time; 0 where no time is known.
func (l *Scheduler) fastestKnown(j *JobState) (gpuType int, leastUs int64) {
	for _, m := range j.modes {
		if us := l.knownUs(j, m.Type); us > 0 && (leastUs == 0 || us < leastUs) {
			gpuType, leastUs = m.Type, us
		}
	}
	return gpuType, leastUs
}

// count adds a job's relative speeds to those of the types, or with −1 removes them.
func (ls *LearnedSpeeds) count(l *Scheduler, j *JobState, times int64) {
	known := 0
	for _, m := range j.modes {
		if l.knownUs(j, m.Type) > 0 {
			known++
		}
	}
	if known < 2 {
		return
	}
	for len(ls.types) < len(l.types) {
		ls.types = append(ls.types, typeSpeed{})
	}
	_, fastestUs := l.fastestKnown(j)
	for _, m := range j.modes {
		if us := l.knownUs(j, m.Type); us > 0 {
			x := &ls.types[m.Type]
			x.Sum += times * max(1, mulDivUp(fastestUs, speedUnit, us))
			x.Count += times
		}
	}
	ls.jobs += times
}

// believedUs is the time of a round that is expected where it is not known.
func (ls *LearnedSpeeds) believedUs(l *Scheduler, j *JobState, gpuType int) int64 {
	from, baseUs := l.fastestKnown(j)
	speed := int64(speedUnit)
	if baseUs > 0 {
		speed = ls.of(from)
	} else if baseUs = ls.rounds.median(); baseUs == 0 {
		baseUs = unknownRoundUs
	}
	return min(max(1, mulDivUp(baseUs, speed, ls.of(gpuType))), hare.MaxExact)
}

// setSpeeds sets the times of a job's modes by what is known and believed.
func (l *Scheduler) setSpeeds(j *JobState) {
	ls, changed := l.rule.Speeds, false
	for i := range j.modes {
		m := &j.modes[i]
		us := l.knownUs(j, m.Type)
		if us == 0 {
			us = ls.believedUs(l, j, m.Type)
		}
		changed = changed || us != m.DurationUs
		m.DurationUs = us
	}
	if changed {
		l.sortModes(j.modes)
		j.timesVersion++
		l.touch(j)
	}
}

// remakeModes makes a job's modes again because there is another type.
func (l *Scheduler) remakeModes(j *JobState) {
	ls := l.rule.Speeds
	if ls == nil {
		l.expectSpread(j)
		j.modes = l.modesOf(j)
		return
	}
	ls.count(l, j, -1)
	l.expectSpread(j)
	j.modes = l.modesOf(j)
	ls.count(l, j, 1)
	l.setSpeeds(j)
}

// arrived takes note of the profile of a job that has arrived.
func (ls *LearnedSpeeds) arrived(l *Scheduler, j *JobState) {
	if ls == nil {
		return
	}
	if _, us := l.fastestKnown(j); us > 0 {
		ls.rounds.add(us, maxMedian)
	}
	before := ls.jobs
	ls.count(l, j, 1)
	ls.countedFrom(l, before)
	l.setSpeeds(j)
}

// countedFrom makes the beliefs of all jobs again whenever twice as many jobs are known as at
// the last time. before is how many were known then.
func (ls *LearnedSpeeds) countedFrom(l *Scheduler, before int64) {
	if ls.jobs == before || ls.jobs&(ls.jobs-1) != 0 {
		return
	}
	for _, j := range l.jobs {
		if slices.ContainsFunc(j.modes, func(m Mode) bool { return l.knownUs(j, m.Type) == 0 }) {
			l.setSpeeds(j)
		}
	}
}

// observeSpeed learns from the end of the last task of a round, or of a task that started
// alone.
func (l *Scheduler) observeSpeed(j *JobState, e *hare.Event) {
	ls := l.rule.Speeds
	g, ok := l.gpuOf[e.GPU]
	if ls == nil || !ok || e.ComputeUs <= 0 || j.ended+1 < j.spec.Tasks {
		return
	}
	t := l.gpus[g].Type
	for _, h := range j.gpus {
		if l.gpus[h].Type != t {
			return // the slowest type is not known
		}
	}
	us := min(e.ComputeUs+e.SyncUs, hare.MaxExact)
	i := slices.IndexFunc(j.measured, func(m measuredTimes) bool { return m.Type == t })
	if i < 0 && us == l.givenUs(j, t) {
		return // the profile is right
	}
	oldUs := j.DurationUs(t)
	_, fastestUs := l.fastestKnown(j)
	jobs := ls.jobs
	ls.count(l, j, -1)
	if i < 0 {
		j.measured = append(j.measured, measuredTimes{Type: t})
		i = len(j.measured) - 1
	}
	m := &j.measured[i]
	if m.Us = append(m.Us, us); len(m.Us) > measuredRounds {
		m.Us = slices.Delete(m.Us, 0, 1)
	}
	ls.count(l, j, 1)
	if fastestUs == 0 {
		ls.rounds.add(us, maxMedian)
	}
	if newUs := l.knownUs(j, t); newUs != 0 && newUs != oldUs || len(m.Us) == 1 && l.givenUs(j, t) == 0 {
		l.setSpeeds(j)
		ls.countedFrom(l, jobs)
	}
}

// Where the times of a job go by the spread of its rounds (docs/reference/model.md), a Scheduler expects a
// round to be as near together as GPUs in service allow if all of them are free, and a round that runs
// to take the time of its spread.

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

// SpeedsSnapshot is the state of LearnedSpeeds. Jobs are in the order of arrival.
type SpeedsSnapshot struct {
	Types  []typeSpeed     `json:"types,omitempty"`
	Jobs   int64           `json:"jobs,omitempty"`
	Rounds medianSnapshot  `json:"rounds"`
	Of     []speedSnapshot `json:"of"`
}

// speedSnapshot is what was measured of a job, and the times of its modes, by type, in the
// order of its profile.
type speedSnapshot struct {
	Measured []measuredTimes `json:"measured,omitempty"`
	Modes    []modeSnapshot  `json:"modes,omitempty"` // where they are not those of the profile
}

type modeSnapshot struct {
	Type       int   `json:"type"`
	DurationUs int64 `json:"duration_us"`
}

func (l *Scheduler) SpeedsSnapshot() *SpeedsSnapshot {
	ls := l.rule.Speeds
	s := &SpeedsSnapshot{Types: ls.types, Jobs: ls.jobs, Rounds: ls.rounds.snapshot(), Of: []speedSnapshot{}}
	for _, j := range l.jobs {
		of := speedSnapshot{Measured: j.measured}
		for _, m := range j.modes {
			if m.DurationUs != l.givenUs(j, m.Type) {
				of.Modes = append(of.Modes, modeSnapshot{m.Type, m.DurationUs})
			}
		}
		s.Of = append(s.Of, of)
	}
	return s
}

// RestoreSpeeds takes the state of speeds, nil where the version of the snapshot had none;
// false says that the snapshot contradicts itself.
func (l *Scheduler) RestoreSpeeds(s *SpeedsSnapshot) bool {
	ls := l.rule.Speeds
	if s == nil {
		for _, j := range l.jobs {
			ls.arrived(l, j)
		}
		return true
	}
	if len(s.Types) > len(l.types) || s.Jobs < 0 || len(s.Of) != len(l.jobs) || !ls.rounds.restore(&s.Rounds) {
		return false
	}
	ls.types, ls.jobs = s.Types, s.Jobs
	for _, x := range s.Types {
		if x.Sum < 0 || x.Count < 0 {
			return false
		}
	}
	for i, of := range s.Of {
		j := l.jobs[i]
		for _, m := range of.Measured {
			if m.Type < 0 || m.Type >= len(l.types) || len(m.Us) == 0 || len(m.Us) > measuredRounds ||
				slices.ContainsFunc(m.Us, func(us int64) bool { return us <= 0 || us > hare.MaxExact }) {
				return false
			}
		}
		j.measured = of.Measured
		for _, m := range of.Modes {
			at := slices.IndexFunc(j.modes, func(x Mode) bool { return x.Type == m.Type })
			if at < 0 || m.DurationUs <= 0 || m.DurationUs > hare.MaxExact {
				return false
			}
			j.modes[at].DurationUs = m.DurationUs
		}
		l.sortModes(j.modes)
	}
	return true
}
