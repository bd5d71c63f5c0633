package room

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// levelTime says how long a round takes on a type within one domain of a level.
type levelTime struct {
	level int
	us    int64
}

// JobLevels are the levels of a gang or rigid job whose rounds must keep together, or take longer
// where they are spread.
type JobLevels struct {
	Levels *hare.Levels
	within int
	// times has the levels in one domain of which a round may be placed, from fine to coarse,
	// by type: those that shorten a round, and within. It is nil where the job cannot run.
	times [][]levelTime
}

// levelsOf returns nil where levels do not matter to job i. A round of a single task is on one
// node, so that they matter only to its time, which RoundUs returns.
func levelsOf(m *model.Model, i int) *JobLevels {
	j := &m.Jobs[i]
	if m.Levels == nil || j.Sync == hare.Relaxed || j.Tasks == 1 {
		return nil
	}
	spreads := slices.ContainsFunc(j.Modes, func(md model.Mode) bool { return md.SyncByLevel != nil })
	if j.Within == m.Levels.Any() && !spreads {
		return nil
	}
	jl := &JobLevels{Levels: m.Levels, within: j.Within, times: make([][]levelTime, len(m.Types))}
	for _, md := range j.Modes {
		for _, level := range j.LevelModes(md) {
			jl.times[md.Type] = append(jl.times[md.Type], levelTime{level, md.ComputeUs + md.SyncAtUs(level)})
		}
	}
	return jl
}

// RoundUs returns how long a round of a job takes where nothing says how far it is spread: the
// longest time, or that of one node if there is a single task.
func RoundUs(j *model.Job, md model.Mode) int64 {
	if j.Tasks == 1 {
		return LeastRoundUs(md)
	}
	return md.DurationUs()
}

// LeastRoundUs returns how long a round takes where it is least spread.
func LeastRoundUs(md model.Mode) int64 { return md.ComputeUs + md.SyncAtUs(0) }

// RoundUs returns how long a round takes on a type that is spread over a level.
func (jl *JobLevels) RoundUs(k int16, spread int) int64 {
	times := jl.times[k]
	for _, lt := range times {
		if lt.level >= spread {
			return lt.us
		}
	}
	return times[len(times)-1].us
}

// AllLevels returns the levels that shorten a round on some type, and within, from fine to coarse.
func (jl *JobLevels) AllLevels(types []int16) []int {
	var levels []int
	for _, k := range types {
		for _, lt := range jl.times[k] {
			levels = append(levels, lt.level)
		}
	}
	slices.Sort(levels)
	return slices.Compact(levels)
}
