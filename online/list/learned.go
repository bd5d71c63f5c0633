package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

// SetupTime is how long a GPU is lost when it begins another job: stated by the user, or
// learned. A round loses the time from its start that its last task did not measure. What
// a switch takes is the median loss of the last rounds that began with a switch, less that
// of the last rounds that did not: what every round loses, such as the time of messages, is
// no part of a switch.
type SetupTime struct {
	stated   bool
	statedUs int64
	// switched and stayed are what the last rounds of each kind lost.
	switched, stayed sortedWindow
	// learnedUs is what is believed. It changes only where the medians say something that
	// differs by more than an eighth, because much is computed from it.
	learnedUs int64
}

// NewSetupTime is that of RollingConfig.SwitchUs.
func NewSetupTime(switchUs int64) SetupTime {
	return SetupTime{stated: switchUs != 0, statedUs: max(0, switchUs)}
}

// Us is how long a switch takes, 0 where nothing is known.
func (st *SetupTime) Us() int64 {
	switch {
	case st == nil:
		return 0
	case st.stated:
		return st.statedUs
	}
	return st.learnedUs
}

// leastSwitchUs is the shortest switch that is taken account of, where it is learned.
const leastSwitchUs = 10_000

// learn takes note of what a round lost.
func (st *SetupTime) learn(lostUs int64, switched bool) {
	if switched {
		st.switched.add(lostUs, maxMedian)
	} else {
		st.stayed.add(lostUs, maxMedian)
	}
	us := st.switched.median() - st.stayed.median()
	if us < leastSwitchUs {
		us = 0
	}
	if us < st.learnedUs-st.learnedUs/8 || us > st.learnedUs+st.learnedUs/8 {
		st.learnedUs = us
	}
}

// LearnedSpeeds learns how long a round of each job takes on each GPU type. Where a job's
// profile gives a time, the median of the last measuredRounds rounds replaces that time once
// trustMeasured rounds were measured. Where the profile is empty the first round counts, and
// before it the time on the job's fastest known type is scaled by how fast types are for
// other jobs. A job of which nothing is known takes as long as others in the median.
type LearnedSpeeds struct {
	// types are the relative speeds of types, in millionths of the speed on a job's fastest
	// type, over the jobs with at least two known types.
	types []typeSpeed
	jobs  int64 // those that are in types
	// rounds are the times of rounds of the last jobs, each on its fastest known type.
	rounds sortedWindow
}

// typeSpeed is the sum of the relative speeds of a type, and how many there are.
type typeSpeed struct {
	Sum   int64 `json:"sum"`
	Count int64 `json:"count"`
}

const (
	measuredRounds = 5
	trustMeasured  = 3
	// speedUnit is the relative speed of the fastest type of a job.
	speedUnit = 1_000_000
)

// of is the relative speed of a type, at least 1.
func (ls *LearnedSpeeds) of(gpuType int) int64 {
	if gpuType >= len(ls.types) || ls.types[gpuType].Count == 0 {
		return speedUnit
	}
	return max(1, ls.types[gpuType].Sum/ls.types[gpuType].Count)
}

// maxMedian is how many numbers a median is of.
const maxMedian = 32

// sortedWindow is the last numbers that came, and the same sorted.
type sortedWindow struct {
	last   []int64
	oldest int // the place in last of the oldest, once there are as many as are kept
	sorted []int64
}

// add adds a number, in place of the oldest where the most that are kept are there.
func (w *sortedWindow) add(x int64, most int) {
	if len(w.last) < most {
		w.last = append(w.last, x)
	} else {
		at, _ := slices.BinarySearch(w.sorted, w.last[w.oldest])
		w.sorted = slices.Delete(w.sorted, at, at+1)
		w.last[w.oldest] = x
		w.oldest = (w.oldest + 1) % most
	}
	at, _ := slices.BinarySearch(w.sorted, x)
	w.sorted = slices.Insert(w.sorted, at, x)
}

// median is the lower median; 0 where no number has come.
func (w *sortedWindow) median() int64 {
	if len(w.sorted) == 0 {
		return 0
	}
	return w.sorted[(len(w.sorted)-1)/2]
}

// medianSnapshot is the state of a sortedWindow.
type medianSnapshot struct {
	Last   []int64 `json:"last,omitempty"`
	Oldest int     `json:"oldest,omitempty"`
}

func (w *sortedWindow) snapshot() medianSnapshot { return medianSnapshot{w.last, w.oldest} }

// restore fills an empty window; false says that the snapshot contradicts itself.
func (w *sortedWindow) restore(s *medianSnapshot) bool {
	if len(s.Last) > maxMedian || s.Oldest < 0 || s.Oldest >= maxMedian || s.Oldest > 0 && len(s.Last) < maxMedian ||
		slices.ContainsFunc(s.Last, func(x int64) bool { return x < 0 || x > hare.MaxExact }) {
		return false
	}
	w.last, w.oldest, w.sorted = s.Last, s.Oldest, slices.Clone(s.Last)
	slices.Sort(w.sorted)
	return true
}
