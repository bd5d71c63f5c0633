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

// observeSetup learns from the end of the last task of a round on GPU g, or on none where
// the task has left its GPU. It takes O(width of the round).
func (l *Scheduler) observeSetup(j *JobState, g int, e *hare.Event) {
	st := l.rule.Setup
	if st == nil || st.stated || g < 0 || j.hold == hare.Relaxed || j.ended+1 < j.spec.Tasks || e.ComputeUs <= 0 {
		return
	}
	lostUs := max(0, l.nowUs-l.gpus[g].SinceUs-e.ComputeUs-e.SyncUs)
	st.learn(lostUs, l.BeganWithSwitch(j))
}

// BeganWithSwitch reports whether a GPU had to switch to a job for the round that runs.
func (l *Scheduler) BeganWithSwitch(j *JobState) bool {
	return slices.ContainsFunc(j.gpus, func(g int) bool { return l.gpus[g].switched })
}

// SetupUs is how long a round of a job on some GPUs of a type waits for them to switch to
// the job: not at all where as many have run no other job since the job's last round.
func (l *Scheduler) SetupUs(j *JobState, gpuType int, count int64) int64 {
	us := l.rule.Setup.Us()
	if us == 0 || l.OwnGPUs(j, gpuType) >= count {
		return 0
	}
	return us
}

// loseGPU notes that another job begins on a GPU of the last round of a job, given by its
// number.
func (l *Scheduler) loseGPU(user int) {
	if l.rule.Touched == nil || l.rule.Setup.Us() == 0 {
		return
	}
	at, found := slices.BinarySearchFunc(l.jobs, user, func(o *JobState, serial int) int { return o.serial - serial })
	if found {
		l.rule.Touched(l, l.jobs[at])
	}
}

// OwnGPUs is how many GPUs of a type the job runs on, or has run on in its last round and
// no other job since.
func (l *Scheduler) OwnGPUs(j *JobState, gpuType int) (n int64) {
	gpus := j.gpus
	if len(gpus) == 0 {
		gpus = j.last
	}
	for _, g := range gpus {
		if x := &l.gpus[g]; x.Type == gpuType && x.InService && x.user == j.serial {
			n++
		}
	}
	return n
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

// SetupSnapshot is what a snapshot has of switches. Both lists are of GPUs by their index:
// Users are the numbers of the jobs that used them last, or −1, and Switched are the GPUs
// that had to switch for the round that runs.
type SetupSnapshot struct {
	LearnedUs    int64          `json:"learned_us,omitempty"`
	SwitchedLost medianSnapshot `json:"switched_lost"`
	StayedLost   medianSnapshot `json:"stayed_lost"`
	Users        []int          `json:"users"`
	Switched     []int          `json:"switched,omitempty"`
}

func (l *Scheduler) SetupSnapshot() *SetupSnapshot {
	st := l.rule.Setup
	s := &SetupSnapshot{LearnedUs: st.learnedUs, SwitchedLost: st.switched.snapshot(),
		StayedLost: st.stayed.snapshot(), Users: []int{}}
	for g := range l.gpus {
		s.Users = append(s.Users, l.gpus[g].user)
		if x := &l.gpus[g]; x.switched && x.Job != nil {
			s.Switched = append(s.Switched, g)
		}
	}
	return s
}

// RestoreSetup takes the state of switches, nil where the version of the snapshot had none;
// false says that the snapshot contradicts itself.
func (l *Scheduler) RestoreSetup(s *SetupSnapshot) bool {
	if s == nil {
		return true
	}
	st := l.rule.Setup
	if st.learnedUs = s.LearnedUs; s.LearnedUs < 0 || s.LearnedUs > hare.MaxExact {
		return false
	}
	if !st.switched.restore(&s.SwitchedLost) || !st.stayed.restore(&s.StayedLost) || len(s.Users) != len(l.gpus) {
		return false
	}
	for g, user := range s.Users {
		if user < -1 || user >= l.serial {
			return false
		}
		l.gpus[g].user = user
	}
	for _, g := range s.Switched {
		if g < 0 || g >= len(l.gpus) {
			return false
		}
		l.gpus[g].switched = true
	}
	return true
}
