package list

import (
	"slices"

	"github.com/hare-sched/hare"
)

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
