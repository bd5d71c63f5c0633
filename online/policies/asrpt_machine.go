package policies

import (
	"cmp"
	"container/heap"
	"math"

	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/online/list"
)

// singleMachine is one machine that does the jobs with the least work left first and interrupts a job
// for a shorter one (SRPT, which has the least mean completion time on one machine: Schrage 1968). Work
// is in GPU-microseconds. The zero value has no jobs and stands at time 0.
//
// Each operation takes O(log jobs) for each job that it adds, removes or completes.
type singleMachine struct {
	jobs  shortestFirst
	nowUs int64
	speed int64 // GPU-microseconds of work a microsecond
}

// machineJob is what a singleMachine knows of one job.
type machineJob struct {
	job    *list.JobState
	serial int
	left   int64 // work
	at     int   // in the heap, or −1
}

// advance goes on to a time. completed is called with the jobs that end until then, in their order, and with
// when each ends, rounded up to a microsecond.
func (m *singleMachine) advance(nowUs int64, completed func(j *machineJob, atUs int64)) {
	work, done, beganUs := saturating.Mul(nowUs-m.nowUs, m.speed), int64(0), m.nowUs
	m.nowUs = nowUs
	for len(m.jobs) > 0 {
		first := m.jobs[0]
		if first.left > work {
			first.left -= work // it stays the first
			return
		}
		work -= first.left
		done += first.left
		first.left = 0
		m.remove(first)
		completed(first, saturating.Add(beganUs, saturating.MulDivUp(done, 1, m.speed)))
	}
}

// nextUs is when the next job ends if none comes, or math.MaxInt64.
func (m *singleMachine) nextUs() int64 {
	if len(m.jobs) == 0 || m.speed == 0 {
		return math.MaxInt64
	}
	return saturating.Add(m.nowUs, saturating.MulDivUp(m.jobs[0].left, 1, m.speed))
}

func (m *singleMachine) add(j *machineJob) { heap.Push(&m.jobs, j) }

// remove removes a job that the machine has.
func (m *singleMachine) remove(j *machineJob) { heap.Remove(&m.jobs, j.at) }

// shortestFirst is a heap by the work left. Ties go by arrival.
type shortestFirst []*machineJob

func (s shortestFirst) Len() int { return len(s) }

func (s shortestFirst) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(s[a].left, s[b].left), cmp.Compare(s[a].serial, s[b].serial)) < 0
}

func (s shortestFirst) Swap(a, b int) {
	s[a], s[b] = s[b], s[a]
	s[a].at, s[b].at = a, b
}

// Push is heap.Interface.Push.
func (s *shortestFirst) Push(x any) {
	j := x.(*machineJob)
	j.at = len(*s)
	*s = append(*s, j)
}

// Pop is heap.Interface.Pop.
func (s *shortestFirst) Pop() any {
	last := len(*s) - 1
	j := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	j.at = -1
	return j
}
