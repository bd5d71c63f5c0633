// Package list is the engine of lists: list scheduling of jobs on GPUs by a Rule, with the state of jobs, GPUs and
// nodes, what is reserved for jobs that do not fit, the guard against starvation, and snapshots. Package policies has
// the rules.
package list

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/placement"
)

// Scheduler is list scheduling (Graham 1966) with a Rule: whenever GPUs are free, it
// goes through the waiting jobs in the order of their priorities and starts each job
// that fits. It keeps the state of jobs and GPUs and implements online.Policy and
// online.Durable. A Scheduler is not safe for concurrent use.
//
// A step costs O(jobs + GPUs) at worst, and O(log GPUs + width) where no GPU becomes
// free. Without Rule.Speeds the scheduler learns nothing from measured times; types on which a
// job's speed is not given come after the others, by name. A task that fails starts again at once where
// the job keeps its GPUs, with its whole round for gang and rigid jobs; otherwise the
// task waits for its turn, as under HLAS.
type Scheduler struct {
	rule      Rule
	nowUs     int64
	types     []string
	typeOf    map[string]int
	gpus      []GPU
	gpuOf     map[string]int
	vacant    []int   // indices of gpus without a name, descending
	free      [][]int // by type, ascending
	inService []int   // by type
	capacity  int64   // counts changes of inService
	jobs      []*JobState
	jobOf     map[string]*JobState
	serial    int
	changed   bool // whether a start may be possible since the last schedule
	tick      bool // whether the event at hand is a tick
	out       []hare.Decision
	queue     priorityQueue
	reserved  reservation
	waiting   waitingJobs
	belief    *SizeBelief // nil without Rule.LearnSizes
	typicalUs int64       // RoundUs where no speed is known, with Rule.LearnSizes; 0 until it is asked for
	guard     guard

	described  placement.Described
	placedJobs int              // jobs with rules about nodes
	nodes      *placement.Nodes // nil where there are none; see arriveOnNodes
	onNodes    NodeReservation
	quotas     []hare.Quota // see online.WithQuota
	onQuotas   map[int32]QuotaReservation
	levelJobs  int   // jobs with times that go by the spread
	spreadAt   int64 // capacity at the last expectSpreads
}

var (
	_ online.Durable    = (*Scheduler)(nil)
	_ online.Observable = (*Scheduler)(nil)
	_ online.Waker      = (*Scheduler)(nil)
)

// GPU is the state of one GPU; a vacant slot has no name.
type GPU struct {
	Name      string
	Type      int
	node      int // node in the initial cluster; a GPU that joined later has a number of its own
	InService bool
	initial   bool      // whether the GPU is of the initial cluster and keeps its index
	Job       *JobState // the job that holds the GPU, or nil
	Task      int64     // the task that has started on the GPU and not ended, or −1
	lead      bool      // whether the GPU is the first of a task; only where nodes matter
	SinceUs   int64     // the start of that task
	// user is the number of the job that began on the GPU last since the GPU came into
	// service, or −1, and switched whether it was another job before the task.
	user     int
	switched bool
}

// reservation keeps GPUs for the first job that does not fit, as EASY backfill does. EASY
// calls the last two fields shadow time and extra nodes.
type reservation struct {
	forJob   *JobState
	gpuType  int    // the type whose GPUs are kept, or −1 for all that the job may use
	types    []bool // by type, whether its GPUs are kept
	shadowUs int64  // when enough of these GPUs are expected to be free
	extra    int64  // GPUs of these types that forJob will not need then
}

// NodeReservation keeps whole nodes for the first job that does not fit, where the scheduler
// goes by nodes: EASY backfill. Other jobs run on these nodes only if they end before.
type NodeReservation map[int32]int64 // the time until which a node may be used

// Keep adds the nodes of GPUs. A node that is kept for two jobs may be used until the first of them needs it.
func (nr NodeReservation) Keep(l *Scheduler, gpus []int, untilUs int64) {
	for _, g := range gpus {
		n := l.nodes.Node(g)
		if sooner, kept := nr[n]; !kept || untilUs < sooner {
			nr[n] = untilUs
		}
	}
}

// Avoid says which nodes a job must not use whose tasks would run until endUs.
func (nr NodeReservation) Avoid(endUs int64) placement.Avoid {
	if len(nr) == 0 {
		return nil
	}
	return func(node int32) bool {
		untilUs, kept := nr[node]
		return kept && endUs > untilUs
	}
}

// QuotaReservation keeps GPUs of a quota for the first job that it holds back: EASY backfill.
type QuotaReservation struct {
	ForJob   *JobState
	ShadowUs int64 // when the quota is expected to have room for the job
	Extra    int64 // GPUs of the quota that the job will not need then
}
